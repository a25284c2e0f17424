import { once } from "node:events";
import { copyFile, link, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { processEnded, spawnTethered } from "../../../src/node/tethered-process.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { bundledScript } from "../../helpers/bundle.ts";
import { eventually } from "../../helpers/eventually.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { acceptId } from "../store-fixtures.ts";

const CHILD = fileURLToPath(new URL("./crash-child.ts", import.meta.url));

let folder: string;
let path: string;
const opened: Store[] = [];
beforeEach(async () => {
  folder = await testFolder();
  path = join(folder, "jobgate.db");
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()));
});

async function open(name = path): Promise<Store> {
  const store = await openSqliteStore({
    path: name,
    threads: false,
    maxPending: 1_000_000,
    encodeJobCall: ({ body }) => body,
  });
  opened.push(store);
  return store;
}

function spawnChild() {
  const args = [bundledScript(`import "${CHILD}";`), path, join(folder, "log")];
  const child = spawnTethered({ command: process.execPath, args });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

test("A file that another process has open is refused with its pid, until that process is killed; its call IDs are left out, also by an older copy", async () => {
  const child = spawnChild();
  const log = join(folder, "log");
  await eventually(async () => expect(await readFile(log, "utf8")).toContain("acked"));
  // A stopped process keeps the file open, and uses no CPU.
  child.kill("SIGSTOP");
  await expect(open()).rejects.toThrow(`${path} is in use by process ${child.pid}`);
  // The refusal has not harmed the lock.
  await expect(open()).rejects.toThrow(`in use by process ${child.pid}`);
  expect(child.exitCode).toBeNull();

  child.kill("SIGKILL");
  await processEnded(child);
  const database = openDriver(path);
  const row = database.prepare<{ seq: number }>("SELECT seq FROM sqlite_sequence").get([]);
  database.exec("DELETE FROM job_calls; DELETE FROM sqlite_sequence");
  database.close();
  expect(await acceptId(await open())).toBeGreaterThan(row?.seq ?? Number.POSITIVE_INFINITY);
});

test("A second store on one file in one process is refused, and by a symbolic link too", async () => {
  const store = await open();
  const link = join(folder, "link.db");
  await symlink(path, link);
  for (const name of [path, link])
    await expect(open(name)).rejects.toThrow(`is in use by process ${process.pid}`);
  await acceptId(store);
  // Those refusals have not harmed the lock, which the whole process would lose with any copy of the file that it closes.
  const child = spawnChild();
  let printed = "";
  child.stderr.on("data", (chunk: Buffer) => {
    printed += chunk.toString();
  });
  await once(child, "close");
  expect(printed).toContain(`is in use by process ${process.pid}`);

  await store.close();
  expect((await (await open(link)).totals()).calls.ready).toBe(1);
});

test("A link to a file that does not exist yet and that file are one", async () => {
  const link = join(folder, "link.db");
  await symlink("jobgate.db", link);
  await open(link);
  await expect(open(path)).rejects.toThrow("is in use by");
});

test("Of many that open one file at once, one gets it", async () => {
  const attempts = await Promise.allSettled(Array.from({ length: 8 }, () => open()));
  expect(attempts.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});

test("Other programs can read and back up a file that is open", async () => {
  const store = await open();
  await acceptId(store);
  const reader = openDriver(path);
  expect(reader.prepare("SELECT count(*) AS n FROM job_calls").get([])).toMatchObject({ n: 1 });
  reader.exec(`VACUUM INTO '${join(folder, "copy.db")}'`);
  reader.close();

  expect((await (await open(join(folder, "copy.db"))).totals()).calls.ready).toBe(1);
});

test("A store that could not be opened leaves the file to others", async () => {
  const other = openDriver(path);
  other.exec("CREATE TABLE songs (title TEXT)");
  other.close();
  await expect(open()).rejects.toThrow("another program");
  await rm(path);
  await open();
});

test("An empty store does not take the place of a store that is gone, unless its owner file is deleted too", async () => {
  const store = await open();
  await acceptId(store);
  await store.close();
  await rm(path);

  await expect(open()).rejects.toThrow(/missing or empty.*restore it from a backup, or delete .*-owner/);
  await expect(stat(path)).rejects.toThrow("ENOENT");
  openDriver(path).close();
  await expect(open()).rejects.toThrow(/missing or empty/);
  const empty = openDriver(path);
  empty.exec("PRAGMA user_version = 0; VACUUM");
  empty.close();
  await expect(open()).rejects.toThrow(/empty/);

  await rm(path);
  await rm(`${path}-owner`);
  expect(await acceptId(await open())).toBe(1);
});

test("A file with a second name is refused under the name that was not served", async () => {
  const store = await open();
  const id = await acceptId(store);
  await store.close();
  await link(path, join(folder, "other.db"));
  await expect(open(join(folder, "other.db"))).rejects.toThrow("is one of 2 names (hard links) of one file");
  expect(await acceptId(await open())).toBe(id + 1);
});

test("An older copy gives out no call ID that was given since, and a clean stop leaves none out", async () => {
  const first = await open();
  expect(await acceptId(first)).toBe(1);
  await first.close();
  await copyFile(path, join(folder, "older.db"));
  const second = await open();
  expect([await acceptId(second), await acceptId(second)]).toEqual([2, 3]);
  await second.close();
  await rename(join(folder, "older.db"), path);
  expect(await acceptId(await open())).toBe(4);
});
