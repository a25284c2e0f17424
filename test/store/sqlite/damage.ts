import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { inspectSqlite } from "../../../src/store/sqlite/inspect.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { operationsOf } from "../differential/makers.ts";
import {
  claimCalls,
  claimOne,
  encodeTestCall,
  paidCall,
  paymentIntent,
  webhookCall,
} from "../store-fixtures.ts";

/**
 * Fate of a damaged store, the first that applies:
 * - `refused`: jobgate does not start on it, and says why.
 * - `found`: `jobgate store check` finds it.
 * - `fails`: reading it fails, or ends the process.
 * - `harmless`: everything acknowledged is there, unchanged.
 * - `silent`: something acknowledged is lost or changed, and nothing says so.
 */
export type Fate = "refused" | "found" | "fails" | "harmless" | "silent";

/** Contents of a store's files; an empty log if there is none. */
export interface Files {
  readonly database: Buffer;
  readonly log: Buffer;
  readonly owner: Buffer;
}

/** A store, and everything that it had acknowledged. */
export interface SoundStore {
  readonly files: Files;
  readonly content: string;
}

/** A file system in memory, if there is one: its syncs take no time. */
const FOLDER = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
const ENTRIES = 30;

/** Fills a store in two lives. @returns its files after the first, which was stopped, and after the second, which was killed */
export async function fillStore(): Promise<{ readonly stopped: SoundStore; readonly killed: SoundStore }> {
  const opened = await openTestStore({ encodeJobCall: encodeTestCall });
  await fill(opened.store, 0);
  copyLog(opened.path);
  const stopped = { ...(await readFiles(opened.path)), log: Buffer.alloc(0) };
  // Its transaction keeps the log from being copied meanwhile.
  const reader = openDriver(opened.path);
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM payments").get([]);
  await fill(opened.store, ENTRIES);
  const killed = await readFiles(opened.path);
  reader.close();
  await opened.stop();
  return {
    stopped: { files: stopped, content: await inFolder(stopped, serveAndRead) },
    killed: { files: killed, content: await inFolder(killed, serveAndRead) },
  };
}

/** Copies the log into the database, as a stop does. */
function copyLog(path: string): void {
  const database = openDriver(path);
  database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").all([]);
  database.close();
}

/** Makes as many commits as there are changes: the store waits for each. */
async function fill(store: Store, from: number): Promise<void> {
  const body = (n: number) => Buffer.from(`body ${n} `.repeat(1 + ((n * 97) % 900)));
  for (let n = from + 1; n <= from + ENTRIES; n++) {
    await store.beginPayment(paymentIntent(n), paidCall({ body: body(n) }));
    await store.settlePayment(paymentIntent(n).key, JSON.stringify({ transaction: `0x${n}` }), String(n));
    const lease = await claimOne(store, { jobIds: [paidCall().jobId] });
    await store.ack(lease, { body: body(n + 1), contentType: "text/plain" });
    await store.accept(webhookCall({ body: body(n + 2) }));
  }
}

async function readFiles(path: string): Promise<Files> {
  const [database, log, owner] = await Promise.all(
    ["", "-wal", "-owner"].map((end) => readFile(`${path}${end}`).catch(() => Buffer.alloc(0))),
  );
  return { database, log, owner } as Files;
}

/** Starts on damaged files, each time on fresh copies. */
export async function fateOf(files: Files, content: string): Promise<Fate> {
  const problems = await inFolder(files, async (path) => {
    const inspection = inspectSqlite(path);
    return inspection.check().finally(() => inspection.close());
  }).catch((error: unknown) => [String(error)]);
  return inFolder(files, async (path) => {
    const store = await open(path).catch(() => undefined);
    if (store === undefined) return "refused";
    try {
      if (problems.length > 0) return "found";
      const found = await contentOf(store).catch(() => undefined);
      if (found === undefined) return "fails";
      return found === content ? "harmless" : "silent";
    } finally {
      await store.close();
    }
  });
}

async function inFolder<Result>(
  { database, log, owner }: Files,
  use: (path: string) => Promise<Result>,
): Promise<Result> {
  const folder = await mkdtemp(join(FOLDER, "jobgate-damage-"));
  const path = join(folder, "jobgate.db");
  try {
    await writeFile(path, database);
    if (log.byteLength > 0) await writeFile(`${path}-wal`, log);
    await writeFile(`${path}-owner`, owner);
    return await use(path);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const open = (path: string) =>
  openSqliteStore({ path, maxPending: 100_000, encodeJobCall: encodeTestCall, threads: false });

async function serveAndRead(path: string): Promise<string> {
  const store = await open(path);
  return contentOf(store).finally(() => store.close());
}

/** Everything acknowledged: payments, results, books, and the calls that wait with their bodies. */
async function contentOf(store: Store): Promise<string> {
  const { items: payments } = await store.listPayments({ limit: 1_000 });
  const results = await Promise.all(payments.map(({ callId }) => store.findResult(callId)));
  const until = Number.MAX_SAFE_INTEGER;
  const books = await operationsOf(store).listMovements?.({ after: { at: 0, id: 0 }, until, limit: 1_000 });
  const calls = await claimCalls(store, { limit: 1_000 });
  const waiting = calls.map(({ callId, encoded }) => [callId, Buffer.from(encoded).toString("base64")]);
  return JSON.stringify([payments, results, books, waiting], (_, value) =>
    typeof value === "bigint" ? String(value) : value,
  );
}
