import { existsSync, readFileSync, rmSync, statSync, truncateSync } from "node:fs";
import { copyFile, open as openFile, readFile, rename, rm, truncate } from "node:fs/promises";
import { endianness } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { UnknownOutcomeError } from "../../../src/core/errors.ts";
import { openConnection } from "../../../src/store/sqlite/connection.ts";
import { newSeenCommit } from "../../../src/store/sqlite/database-header.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { inspectSqlite } from "../../../src/store/sqlite/inspect.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { TimedOperation } from "../../../src/store/sqlite/transaction.ts";
import type { Store } from "../../../src/store/store.ts";
import { digestsOf, testFolder } from "../../helpers/test-folder.ts";
import { writeEmptyDatabase } from "../../helpers/test-store.ts";
import { until } from "../../helpers/until.ts";
import { acceptId, claimCalls, paidCall, paymentIntent, webhookCall } from "../store-fixtures.ts";

let folder: string;
let path: string;
let store: Store;
beforeEach(async () => {
  folder = await testFolder();
  path = join(folder, "jobgate.db");
});
afterEach(() => store?.close());

async function open({ threads = false } = {}): Promise<void> {
  ({ store } = await openAt(path, { threads }));
}

async function openAt(path: string, { threads = false } = {}) {
  writeEmptyDatabase(path);
  const logs: string[] = [];
  const logger = pino({ level: "info" }, { write: (line: string) => void logs.push(line) });
  const store = await openSqliteStore({
    path,
    threads,
    logger,
    maxPending: 1000,
    encodeJobCall: ({ body }) => body,
  });
  for (let i = 0; i < 5; i += 1) await acceptId(store, { body: Buffer.alloc(20_000, "x") });
  return { store, logs };
}

test("An operator's first lookup makes no database where one was deleted", async () => {
  await open();
  await rm(path);
  await store.totals().catch(() => undefined);
  expect(existsSync(path)).toBe(false);
});

test("Says of a batch during which its database is lost that its outcome is unknown", () => {
  const connection = openConnection(
    {
      role: "writer",
      path,
      watch: [path],
      seenCommit: newSeenCommit(),
      isNew: true,
      lastCallId: 0,
      maxPending: 10,
      now: Date.now(),
    },
    () => undefined,
  );
  const operation = {
    name: "probe",
    now: 0,
    get input() {
      rmSync(path);
      return [];
    },
  } as unknown as TimedOperation;
  try {
    expect(() => connection.run([operation])).toThrow(UnknownOutcomeError);
  } finally {
    connection.close();
  }
});

test("A log that is truncated during a batch is cut where its hole begins, and its database is kept and not served", async () => {
  await open();
  await checkpointed(path);
  await store.close();
  const calls = await countCalls();
  const losses: unknown[] = [];
  const connection = openConnection(
    {
      ...{ role: "writer", path, watch: [path, `${path}-wal`], isNew: false, seenCommit: newSeenCommit() },
      ...{ lastCallId: 0, maxPending: 10, now: Date.now() },
    },
    (...loss) => void losses.push(loss),
  );
  const probe = (whileRunning: () => void): TimedOperation => ({
    name: "probe",
    now: 0,
    get input(): [] {
      whileRunning();
      return [];
    },
  });
  for (let round = 0; round < 5; round += 1) connection.run([probe(() => undefined)]);
  expect(() => connection.run([probe(() => truncateSync(`${path}-wal`, 0))])).toThrow(UnknownOutcomeError);
  expect(losses).toEqual([[expect.stringContaining("jobgate.db-wal was truncated"), "lost"]]);
  expect(statSync(`${path}-wal`).size).toBe(0);
  connection.close();
  expect(await countCalls()).toBe(calls);
});

test("A store whose log lost changes does not start again before it is restored or the log is deleted", async () => {
  await open();
  await checkpointed(path);
  const other = openDriver(path);
  // Keeps the log from being copied.
  other.exec("BEGIN; SELECT count(*) FROM job_calls");
  await acceptId(store);
  await truncate(`${path}-wal`, 0);
  await expect(store.accept(webhookCall())).rejects.toMatchObject({ code: "store_unavailable" });
  expect(store.status().reason).toMatch(/jobgate\.db-wal was truncated while in use: restore the database/);
  expect(() => inspectSqlite(path)).toThrow(
    /-wal was truncated .* changes are lost: process \d+ accepts no more jobs\. Stop that process/,
  );
  await store.close();
  other.exec("ROLLBACK");
  other.close();

  path = await copied();
  await expect(openAgain()).rejects.toThrow(
    /-wal was truncated .* changes are lost: restore a backup, or delete/,
  );
  expect(() => inspectSqlite(path)).toThrow(
    /-wal was truncated .* changes are lost: restore a backup, or delete/,
  );
  await rm(`${path}-wal`, { force: true });
  await openAgain();
  expect(await acceptId(store)).toBeGreaterThan(6);
  expect(await countCalls()).toBe(6);
});

test("A log that is truncated after all of it was copied loses nothing: the next start is without it", async () => {
  await open();
  await checkpointed(path);
  await truncate(`${path}-wal`, 32 + 24 + 4096);
  await expect(store.accept(webhookCall())).rejects.toMatchObject({ code: "store_unavailable" });
  expect(store.status().reason).toMatch(/jobgate\.db-wal was truncated while in use: nothing is lost/);
  path = await copied();
  await store.close();
  await openAgain();
  expect((await store.totals()).calls.ready).toBe(5);
  expect(await acceptId(store)).toBeGreaterThan(5);
});

test("A log that a power loss left with zeros behind its last commit is whole", async () => {
  await open();
  path = await copied();
  await store.close();
  const { size } = statSync(`${path}-wal`);
  truncateSync(`${path}-wal`, size + 10 * (24 + 4096));
  await openAgain();
  for (let round = 0; round < 3; round += 1) await acceptId(store);
  expect(store.status().writable).toBe(true);
});

test("A log that another program's checkpoint empties, and that grows again, is whole", async () => {
  await open();
  const other = openDriver(path);
  for (let round = 0; round < 3; round += 1) {
    expect(other.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get([])).toMatchObject({ busy: 0 });
    await acceptId(store);
  }
  other.close();
  expect(store.status().writable).toBe(true);
});

/** Copies the files to where no connection of this process has them open: libsql keeps those that are closed for a time. */
async function copied(): Promise<string> {
  const copy = join(await testFolder(), "jobgate.db");
  for (const end of ["", "-wal", "-owner"])
    if (existsSync(`${path}${end}`)) await copyFile(`${path}${end}`, `${copy}${end}`);
  return copy;
}

async function countCalls(): Promise<number | undefined> {
  const database = openDriver(await copied());
  expect(database.prepare("PRAGMA integrity_check").all([])).toMatchObject([{ integrity_check: "ok" }]);
  const row = database.prepare<{ n: number }>("SELECT count(*) AS n FROM job_calls").get([]);
  database.close();
  return row?.n;
}

const losses: { how: string; lose: (path: string) => Promise<void>; reason: RegExp }[] = [
  { how: "deleted", lose: (path) => rm(path), reason: /jobgate\.db was deleted or moved while in use/ },
  { how: "moved away", lose: (path) => rename(path, `${path}.old`), reason: /deleted or moved/ },
  {
    how: "replaced",
    async lose(path) {
      await copyFile(path, `${path}.copy`);
      await rename(`${path}.copy`, path);
    },
    reason: /jobgate\.db was replaced/,
  },
  { how: "truncated to nothing", lose: (path) => truncate(path, 0), reason: /jobgate\.db was truncated/ },
  { how: "truncated to a page", lose: (path) => truncate(path, 4096), reason: /jobgate\.db was truncated/ },
  {
    how: "with its log truncated to nothing",
    lose: (path) => truncate(`${path}-wal`, 0),
    reason: /jobgate\.db-wal was truncated while in use: restore/,
  },
  {
    how: "with its log truncated to a frame",
    lose: (path) => truncate(`${path}-wal`, 32 + 24 + 4096),
    reason: /jobgate\.db-wal was truncated while in use: restore/,
  },
  { how: "without its log", lose: (path) => rm(`${path}-wal`), reason: /jobgate\.db-wal was deleted/ },
  {
    how: "without its owner file",
    lose: (path) => rm(`${path}-owner`),
    reason: /jobgate\.db-owner was deleted/,
  },
];

/** Opens a database that is lost then. */
async function openAndLose(path: string, lose: (path: string) => Promise<void>) {
  const opened = await openAt(path);
  await checkpointed(path);
  // Until the reader ends, no checkpoint copies what is written from now on.
  const reader = openDriver(path);
  onTestFinished(() => reader.close());
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM job_calls").get([]);
  // Sees how long the file is.
  await acceptId(opened.store);
  await lose(path);
  return opened;
}

test.each(losses)(
  "A database that is $how while it is in use takes nothing more, and says why",
  async ({ lose, reason }) => {
    ({ store } = await openAndLose(path, lose));
    await expect(store.accept(webhookCall())).rejects.toMatchObject({ code: "store_unavailable" });
    await expect(store.beginPayment(paymentIntent(1), paidCall())).rejects.toMatchObject({
      code: "store_unavailable",
    });
    await expect(claimCalls(store)).rejects.toMatchObject({ code: "store_unavailable" });
    expect(store.status()).toMatchObject({ writable: false, reason: expect.stringMatching(reason) });
  },
);

/** Returns the number of the last commit that a file has without its log. */
const commitNumberOf = (path: string) => readFileSync(path).readInt32BE(68);

/** Returns true once no frame of the log is left to copy. The page with the commit's number is the first that is copied. */
function isLogCopied(path: string): boolean {
  const index = readFileSync(`${path}-shm`);
  const [frames, copied] = [16, 96].map((at) =>
    endianness() === "LE" ? index.readUInt32LE(at) : index.readUInt32BE(at),
  );
  return frames === copied;
}

/** Writes a file over another one, as `cp` does. The other one does not become shorter, which would be noticed anyway. */
async function overwrite(path: string, copy: string): Promise<void> {
  const bytes = await readFile(copy);
  const file = await openFile(path, "r+");
  await file.write(bytes, 0, bytes.byteLength, 0);
  await file.close();
}

test.each([
  { copy: "older", refusal: /is an older copy, and .*-wal goes on where a newer file ended/ },
  // The log is of the file that the copy has replaced: a start deletes it.
  { copy: "backup", refusal: undefined },
])(
  "A database over which an $copy copy was written takes nothing more, and stays as it is after a stop and a kill",
  async ({ copy, refusal }) => {
    const served = await openAt(path, { threads: true });
    // The store's own checkpoint: another connection of this process may be closed late, and copies the log then.
    const allCopied = (commits: number) => until(() => commitNumberOf(path) >= commits && isLogCopied(path));
    await allCopied(5);
    await copyFile(path, `${path}.older`);
    const inspection = inspectSqlite(path);
    await inspection.backup(`${path}.backup`);
    await inspection.close();
    // Begins the log anew, which then lacks what the copies lack.
    for (const commits of [6, 7, 8]) {
      await acceptId(served.store);
      await allCopied(commits);
    }
    const lastId = await acceptId(served.store);
    await overwrite(path, `${path}.${copy}`);
    if (copy === "older") await expect.poll(() => served.store.status().writable).toBe(false);
    await expect(served.store.accept(webhookCall())).rejects.toMatchObject({ code: "store_unavailable" });
    expect(served.store.status().reason).toMatch(/jobgate\.db was overwritten while in use: restore/);
    const files = () => digestsOf(path, `${path}-wal`);
    const before = await files();
    const killed = await copied();
    await served.store.close();
    expect(await files()).toEqual(before);
    const stopped = await copied();
    for (path of [stopped, killed]) {
      if (refusal !== undefined) {
        await expect(openAgain()).rejects.toThrow(refusal);
        expect(() => inspectSqlite(path)).toThrow(refusal);
        await rm(`${path}-wal`);
      }
      await openAgain();
      expect((await store.totals()).calls.ready).toBe(5);
      expect(await acceptId(store)).toBeGreaterThan(lastId);
      await store.close();
    }
  },
);

test("A database that is lost while it is in use is noticed without traffic", async () => {
  const opened = await Promise.all(
    losses.map(async ({ how, lose, reason }) => {
      const lost = await openAndLose(join(folder, `${how}.db`), lose);
      // A look before the loss may have copied the log: then nothing is lost, and jobgate says so.
      return { ...lost, reason: new RegExp(reason.source.replace("jobgate", how).replace(": restore", "")) };
    }),
  );
  for (const { store, logs, reason } of opened) {
    await expect.poll(() => store.status().writable).toBe(false);
    expect(store.status().reason).toMatch(reason);
    expect(logs.some((line) => reason.test(line) && line.includes("the store is gone"))).toBe(true);
    await store.close();
  }
});

test("A database that is lost stays lost when another file takes its place, also with threads", async () => {
  await open({ threads: true });
  await copyFile(path, `${path}.copy`);
  await rm(path);
  await expect(store.accept(webhookCall())).rejects.toMatchObject({ code: "store_unavailable" });
  await rename(`${path}.copy`, path);
  await expect(store.accept(webhookCall())).rejects.toMatchObject({ code: "store_unavailable" });
  expect(store.status().writable).toBe(false);
});

test("A database that was truncated between two readings of its size is noticed when there is no traffic", async () => {
  await open();
  await checkpointed(path);
  await truncate(path, 4096);
  await expect.poll(() => store.status().writable).toBe(false);
  expect(store.status().reason).toMatch(/jobgate\.db was truncated/);
});

test("A database that is made smaller by VACUUM goes on", async () => {
  await open();
  for (const call of await claimCalls(store)) await store.ack(call);
  const other = openDriver(path);
  other.exec("VACUUM");
  expect(other.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get([])).toMatchObject({ busy: 0 });
  other.close();
  for (let i = 0; i < 3; i += 1) await acceptId(store);
  expect(store.status().writable).toBe(true);
});

test("While lookups fail nothing new is taken, what is out can be finished, and it recovers", async () => {
  await open();
  const [call] = await claimCalls(store, { limit: 1 });
  await checkpointed(path);
  await store.close();
  await overwritten(rootPageOf("offers_by_job"));
  await expect(openAgain()).resolves.toBeUndefined();

  await expect(store.findOffers({ serviceId: 1n, jobIndex: 0 })).rejects.toMatchObject({
    code: "store_unavailable",
  });
  expect(store.status()).toMatchObject({ writable: false, reason: expect.stringContaining("malformed") });
  await expect(store.accept(webhookCall())).rejects.toMatchObject({ code: "store_unavailable" });
  if (call !== undefined) expect(await store.ack(call)).toEqual({ outcome: "done" });
  await expect.poll(() => store.status().writable).toBe(true);
  expect((await store.accept(webhookCall())).kind).toBe("accepted");
});

async function openAgain(): Promise<void> {
  store = await openSqliteStore({
    path,
    threads: false,
    maxPending: 1000,
    encodeJobCall: ({ body }) => body,
  });
}

/** Waits until the whole log is in the database file. */
async function checkpointed(path: string): Promise<void> {
  await expect
    .poll(() => {
      const other = openDriver(path);
      const result = other
        .prepare<{ log: number; checkpointed: number }>("PRAGMA wal_checkpoint(PASSIVE)")
        .get([]);
      other.close();
      return result !== undefined && result.log === result.checkpointed;
    })
    .toBe(true);
}

function rootPageOf(name: string): number {
  const database = openDriver(path);
  const row = database
    .prepare<{ rootpage: number }>("SELECT rootpage FROM sqlite_master WHERE name = ?")
    .get([name]);
  database.close();
  return row?.rootpage ?? 0;
}

/** Fills a page with garbage. */
async function overwritten(page: number): Promise<void> {
  const file = await openFile(path, "r+");
  await file.write(Buffer.alloc(4096, 0xa5), 0, 4096, (page - 1) * 4096);
  await file.close();
}
