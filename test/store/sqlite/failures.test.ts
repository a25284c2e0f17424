import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { beforeEach, expect, test } from "vitest";
import { UnknownOutcomeError } from "../../../src/core/errors.ts";
import type { JobCall } from "../../../src/core/job-call.ts";
import { jsonOfTexts, openDriver } from "../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { writeEmptyDatabase } from "../../helpers/test-store.ts";
import { acceptId, claimCalls, paidCall, paymentIntent, webhookCall } from "../store-fixtures.ts";

let folder: string;
beforeEach(async () => {
  folder = await testFolder();
});

const open = (path: string, { threads = false } = {}) =>
  openSqliteStore({ path, threads, maxPending: 1000, encodeJobCall: ({ body }: JobCall) => body });

test("A missing folder, a file that is not a database or lacks a table, and a newer jobgate's file are refused", async () => {
  await expect(open(join(folder, "missing", "jobgate.db"))).rejects.toThrow(
    `cannot be opened: there is no folder ${join(folder, "missing")}`,
  );
  await mkdir(join(folder, "folder.db"));
  await expect(open(join(folder, "folder.db"))).rejects.toThrow("folder.db cannot be opened: it is a folder");

  const noDatabase = join(folder, "text.db");
  await writeFile(noDatabase, "this is a text of more than a hundred bytes ".repeat(10));
  await expect(open(noDatabase)).rejects.toThrow(/text\.db: .*not a database/);

  const incomplete = join(folder, "incomplete.db");
  writeEmptyDatabase(incomplete);
  const tables = openDriver(incomplete);
  tables.exec("DROP TABLE payments");
  tables.close();
  await expect(open(incomplete)).rejects.toThrow(/^.*incomplete\.db: .*no such table/);

  const newer = join(folder, "newer.db");
  const database = openDriver(newer);
  database.exec("PRAGMA user_version = 199");
  database.close();
  await expect(open(newer)).rejects.toThrow(
    /^.*newer\.db: a newer jobgate wrote this store \(schema version 199, .*\): start that one$/,
  );
});

test.each([0, 1, 2])(
  "The database of another program, of its version %i, is refused and left as it is",
  async (version) => {
    const path = join(folder, "other.db");
    const other = openDriver(path);
    other.exec("CREATE TABLE songs (title TEXT)");
    other.exec(`PRAGMA user_version = ${version}`);
    other.close();
    await expect(open(path)).rejects.toThrow(/other\.db: this is the database of another program/);
    const again = openDriver(path);
    expect(again.prepare("SELECT name FROM sqlite_master").all([])).toEqual([{ name: "songs" }]);
    expect(again.prepare("PRAGMA user_version").all([])).toEqual([{ user_version: version }]);
    again.close();
  },
);

test("A JobCall whose body is gone becomes a dead letter, and does not keep others from running", async () => {
  const path = join(folder, "jobgate.db");
  const before = await open(path);
  const [damaged, whole] = [await acceptId(before), await acceptId(before)];
  await before.close();
  const database = openDriver(path);
  database.prepare("DELETE FROM job_bodies WHERE call_id = ?").run([damaged]);
  database.close();
  const store = await open(path);
  try {
    expect(await claimCalls(store, { limit: 2 })).toMatchObject([{ callId: whole }]);
    expect((await store.totals()).calls).toEqual({ held: 0, ready: 0, leased: 1, dead: 1 });
  } finally {
    await store.close();
  }
});

test("An operation that the database rejects is refused alone, not with the operations that share its batch", async () => {
  const store = await open(join(folder, "jobgate.db"));
  try {
    const bad = paymentIntent(1, { amount: null as unknown as string });
    const [before, refused, after] = await Promise.allSettled([
      store.accept(webhookCall()),
      store.beginPayment(bad, paidCall()),
      store.accept(webhookCall()),
    ]);
    expect([before, after]).toMatchObject([{ value: { kind: "accepted" } }, { value: { kind: "accepted" } }]);
    expect(refused).toMatchObject({ reason: { code: "store_unavailable" } });
    expect(store.status().writable).toBe(true);
    expect((await store.totals()).calls).toEqual({ held: 0, ready: 2, leased: 0, dead: 0 });
  } finally {
    await store.close();
  }
});

let isBundled = false;

/** Opens a store in threads. The first worker is that which writes. */
async function openThreads(path: string) {
  // Opening the first store of a checkout bundles the worker's code, which starts a worker too.
  if (!isBundled) await (await open(path, { threads: true })).close();
  isBundled = true;
  const workers: Worker[] = [];
  const onWorker = (worker: Worker) => void workers.push(worker);
  process.on("worker", onWorker);
  const store = await open(path, { threads: true });
  process.off("worker", onWorker);
  const [writer] = workers;
  if (writer === undefined) throw new Error("no worker was started");
  return { store, writer };
}

test("When the writing worker dies while it has a batch, no answer claims that nothing was changed", async () => {
  const { store, writer } = await openThreads(join(folder, "jobgate.db"));
  const waiting = store.accept(webhookCall());
  // The batch is on its way to the worker now, and its answer cannot be read before the worker's end.
  setImmediate(() => writer.emit("exit", 1));
  await expect(waiting).rejects.toThrow(UnknownOutcomeError);
  await store.close();
  // It lives, and may be committing: what its library does when it is terminated then is not known.
  const ended = once(writer, "exit");
  writer.postMessage({ kind: "close" });
  await ended;
});

test("When the writing worker dies, waiting and later operations are refused, and the status says so", async () => {
  const path = join(folder, "jobgate.db");
  const { store, writer } = await openThreads(path);
  const callId = await acceptId(store);

  // The worker answers nothing from here on, which the store learns only later: the accept waits until then.
  const terminated = writer.terminate();
  const waiting = expect(store.accept(webhookCall())).rejects.toThrow();
  await Promise.all([terminated, waiting]);
  await expect(claimCalls(store)).rejects.toMatchObject({ code: "store_unavailable" });
  expect(store.status()).toMatchObject({ writable: false, reason: expect.stringContaining("worker ended") });
  expect((await store.totals()).calls.ready).toBe(1);
  await store.close();

  const again = await open(path);
  expect((await claimCalls(again))[0]?.callId).toBe(callId);
  await again.close();
});

test("Half a character in JSON that SQLite makes text of becomes the replacement character, and escaped text stays as it is", () => {
  const database = openDriver(":memory:");
  const select = database.prepare<{ text: string }>("SELECT value AS text FROM json_each(?)");
  const kept = (text: string) => select.get([jsonOfTexts([text])])?.text;
  expect(kept("a\ud83d")).toBe("a\ufffd");
  expect(kept("\ude00\ud83d\\")).toBe("\ufffd\ufffd\\");
  for (const text of ["a\ud83d\ude00", "\\ud83d", "\\\\ud83d"]) expect(kept(text)).toBe(text);
  database.close();
});
