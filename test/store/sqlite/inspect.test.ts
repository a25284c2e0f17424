import { execFileSync } from "node:child_process";
import { copyFile, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { inspectStore } from "../../../src/open-store.ts";
import type { StoreInspection } from "../../../src/store/contract/inspection.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { runHereWith } from "../../commands/operator-commands.ts";
import { digestsOf, testFolder } from "../../helpers/test-folder.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { acceptId, claimCalls, claimOne, encodeTestCall, paidId } from "../store-fixtures.ts";

/** A store that is open, with a paid call that is done, one that waits, and a webhook. */
async function givenStore() {
  const opened = await openTestStore({ encodeJobCall: encodeTestCall });
  onTestFinished(() => opened.stop());
  const { store } = opened;
  await paidId(store, 1);
  await store.ack(await claimOne(store), { body: Buffer.from("result"), contentType: "text/plain" });
  await paidId(store, 2);
  await acceptId(store);
  return opened;
}

async function inspecting<Found>(path: string, use: (store: StoreInspection) => Promise<Found>) {
  const inspection = await inspectStore({ url: `sqlite:${path}` });
  return use(inspection).finally(() => inspection.close());
}

const check = (path: string) => inspecting(path, (store) => store.check());
const backup = (path: string, file: string) => inspecting(path, (store) => store.backup(file));

function change(path: string, ...statements: readonly string[]): void {
  const database = openDriver(path);
  for (const statement of statements) database.exec(statement);
  database.close();
}

test("The commands read only where the store is, and exit with 1 when something is wrong", async () => {
  const { path } = await givenStore();
  const config = `store = { url = "env:STORE", max_pending = "many" }\n[operator]\ntoken = "env:NOT_SET"\n`;
  const run = (...args: string[]) =>
    runHereWith(["store", ...args], {
      files: { "jobgate.toml": config },
      env: { STORE: `sqlite:${path}` },
    });
  const info = await run("info");
  expect(info).toMatchObject({ code: 0, stderr: "" });
  expect(info.stdout).toContain(path);
  expect(info.stdout).toMatch(/unfinished calls +2 +20/);
  expect(info.stdout).toMatch(/payments +2 +20/);
  change(path, "DELETE FROM results");
  expect(await run("check")).toMatchObject({
    code: 1,
    stdout: `${path}: 1 paid calls are missing in the journal, or too many
${path}: 1 ended payments or calls are counted wrongly\n`,
  });
  expect(await run("backup", path)).toMatchObject({ code: 1, stderr: expect.stringContaining("exists") });
});

test("A sound store has no problems; orphans and a damaged file are named", async () => {
  const { path } = await givenStore();
  expect(await check(path)).toEqual([]);
  change(path, "DELETE FROM job_bodies WHERE call_id = (SELECT max(call_id) FROM job_bodies)");
  change(
    path,
    "UPDATE payments SET state = 'unresolved' WHERE call_id = (SELECT min(call_id) FROM payments)",
  );
  expect(await check(path)).toEqual([
    "1 calls have no body",
    "1 undecided payments have no call",
    "1 paid calls are missing in the journal, or too many",
    "1 ended payments or calls are counted wrongly",
  ]);
});

test("A copy is whole, keeps the file's mode, gives no call ID out again, and overwrites nothing", async () => {
  const { store, path } = await givenStore();
  const copy = join(await testFolder(), "copy.db");
  await backup(path, copy);
  const later = await acceptId(store);
  expect((await stat(copy)).mode).toBe((await stat(path)).mode);
  expect(await check(copy)).toEqual([]);
  await expect(backup(path, copy)).rejects.toThrow(`${copy} exists`);
  const lost = join(dirname(copy), "missing", "copy.db");
  await expect(backup(path, lost)).rejects.toThrow(`${lost} cannot be written: there is no folder`);

  // A restore in the place of a file whose process was killed: its log is still there.
  const place = join(await testFolder(), "restored.db");
  await copyFile(copy, place);
  await writeFile(`${place}-wal`, "the log of the file that was here before");
  await expect(check(place)).rejects.toThrow(/has replaced, and may have acknowledged jobs: copy it/);
  const restored = await openSqliteStore({
    path: place,
    maxPending: 10,
    encodeJobCall: encodeTestCall,
    threads: false,
  });
  expect((await restored.totals()).payments.settled).toBe(2);
  expect(await acceptId(restored)).toBeGreaterThan(later);
  expect(await claimCalls(restored)).toHaveLength(3);
  await restored.close();
});

test("The first lookup of the operator and a copy write nothing to the file, which needs room on a full disk", async () => {
  const { store, path } = await givenStore();
  const observer = openDriver(path);
  const version = () => observer.prepare<{ data_version: number }>("PRAGMA data_version").all([]);
  const before = version();
  await store.totals();
  await backup(path, join(await testFolder(), "copy.db"));
  expect(version()).toEqual(before);
  await acceptId(store);
  expect(version()).not.toEqual(before);
  observer.close();
});

test("A store that is missing or of another version is refused with the reason", async () => {
  const { path } = await givenStore();
  await expect(inspectStore({ url: "sqlite:nowhere/jobgate.db" })).rejects.toThrow(
    "there is no store at nowhere/jobgate.db",
  );
  change(path, "PRAGMA user_version = 199");
  const refusal = "was made by another version of jobgate: it has schema version 199";
  await expect(check(path)).rejects.toThrow(refusal);
  await expect(backup(path, join(await testFolder(), "copy.db"))).rejects.toThrow(refusal);
  expect(await inspecting(path, (store) => store.info())).toEqual({
    kind: "SQLite",
    place: path,
    bytes: expect.any(Number),
    schemaVersion: 199,
  });
});

test("A folder, a FIFO, a text and another program's database are no stores, and each is named", async () => {
  const folder = await testFolder();
  const at = (name: string) => join(folder, name);
  await writeFile(
    at("text"),
    "SQLite is not mentioned here, but the text is long enough for a header. ".repeat(9),
  );
  await writeFile(at("empty"), "");
  execFileSync("mkfifo", [at("fifo")]);
  await symlink("loop", at("loop"));
  change(at("songs"), "CREATE TABLE songs (title TEXT)");
  for (const [path, reason] of [
    [folder, "is a folder; expected the file of a store"],
    [at("fifo"), "is not a regular file; expected the file of a store"],
    [at("text"), "is not an SQLite database"],
    [at("songs"), "this is the database of another program"],
    [at("missing"), "there is no store at"],
    [at("empty"), "empty: the file is empty"],
    [at("loop"), "cannot be read"],
  ] as const) {
    const refused = await runHereWith(["store", "check"], {
      files: { "jobgate.toml": `store.url = "env:STORE"` },
      env: { STORE: `sqlite:${path}` },
    });
    expect(refused).toEqual({ code: 1, stdout: "", stderr: expect.stringContaining(reason) });
    expect(refused.stderr).toContain(path);
  }
});

test("An inspection of a file leaves its log as it is, also without a process that serves the file", async () => {
  const { store, path } = await givenStore();
  const folder = await testFolder();
  const copy = join(folder, "copy.db");
  // As a killed process leaves them.
  await copyFile(`${path}-wal`, `${copy}-wal`);
  await copyFile(path, copy);
  const before = await digestsOf(copy, `${copy}-wal`);
  expect((await stat(`${copy}-wal`)).size).toBeGreaterThan(0);
  expect(await check(copy)).toEqual([]);
  await backup(copy, join(folder, "backup.db"));
  expect(await digestsOf(copy, `${copy}-wal`)).toEqual(before);
  expect(store.status().writable).toBe(true);
});
