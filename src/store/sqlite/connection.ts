import { UnknownOutcomeError } from "../../core/errors.ts";
import type { OperationOutcome } from "../group-commit.ts";
import { Capacity } from "../new-call.ts";
import { PART_MODULES } from "../part-modules.ts";
import { COMMIT_NUMBER_PRAGMA, type SeenCommit } from "./database-header.ts";
import type { Database } from "./driver.ts";
import { makeLogDurable } from "./durable-log.ts";
import type { FileOwner } from "./file-owner.ts";
import { ForgottenPages } from "./forgotten-pages.ts";
import { AUTOCHECKPOINT_PAGES, openDatabase, readPragma, reasonOf } from "./open-database.ts";
import { readOperations, writeOperations } from "./operations/index.ts";
import { Undecided } from "./operations/payment-rows.ts";
import { runBatch, type TimedOperation } from "./transaction.ts";
import { CheckpointGuard, type TruncatedLog, WatchedFiles } from "./watched-files.ts";

/** Role of a connection. The writer is opened first, because it makes the tables. */
export type ConnectionRole =
  | {
      readonly role: "writer";
      readonly path: string;
      /** Files that the connection watches: the database first, then its log. */
      readonly watch: readonly string[];
      readonly seenCommit: SeenCommit;
      /** If false, a database without tables is refused. */
      readonly isNew: boolean;
      /** Highest call ID that was given out, even if the database does not contain it. */
      readonly lastCallId: number;
      readonly maxPending: number;
      /** Unix milliseconds on the store's clock. */
      readonly now: number;
    }
  | {
      readonly role: "reader";
      readonly path: string;
      /** Set for a reader that also copies the log into the database. */
      readonly checkpoints:
        | { readonly files: FileOwner["files"]; readonly seenCommit: SeenCommit }
        | undefined;
    };

/** One open connection that runs batches of operations. Synchronous: for a worker thread, or for tests. */
export interface Connection {
  run(batch: readonly TimedOperation[]): OperationOutcome[];
  /** Number of JobCalls that `max_pending` includes, as of the last batch; 0 for a reader. */
  readonly pending: number;
  /** Highest call ID that was given out, as of the last batch; 0 for a reader. */
  readonly lastCallId: number;
  /** True if JobCalls that an order or a limit withheld became claimable since the last batch. */
  readonly leavesWork: boolean;
  close(): void;
}

/** Called once, when the writer finds that its files were deleted, replaced, overwritten or truncated. */
type LossListener = (reason: string, log: TruncatedLog | undefined) => void;

/** @throws Error when the database cannot be opened */
export function openConnection(role: ConnectionRole, onLost: LossListener): Connection {
  if (role.role === "reader") return reader(openDatabase(role.path, { isNew: false }), role.checkpoints);
  makeLogDurable(role.path);
  const database = openDatabase(role.path, role);
  try {
    const forgotten = new ForgottenPages(database);
    return watched(writer(database, role), { files: watchedFiles(database, role), forgotten }, onLost);
  } catch (cause) {
    database.close();
    throw new Error(`${role.path}: ${reasonOf(cause)}`, { cause });
  }
}

function watchedFiles(
  database: Database,
  { watch, seenCommit }: Extract<ConnectionRole, { role: "writer" }>,
): WatchedFiles {
  const pageBytes = pageBytesOf(database);
  const pageCount = database.prepare<{ page_count: number }>("PRAGMA page_count");
  const checkpoint = database.prepare<{ busy: number; log: number; checkpointed: number }>(
    "PRAGMA wal_checkpoint(PASSIVE)",
  );
  const size = {
    pageBytes,
    bytes: () => (pageCount.get([])?.page_count ?? 0) * pageBytes,
    copyLog() {
      try {
        for (let round = 0; round < CHECKPOINT_ROUNDS; round++) {
          const { busy, log, checkpointed } = checkpoint.get([]) ?? { busy: 1, log: 0, checkpointed: 0 };
          // If `busy` is not 0, the other connection is copying the log.
          if (busy === 0) return { frames: log, isCopied: log === checkpointed };
          Atomics.wait(PAUSE, 0, 0, PAUSE_MS);
        }
      } catch {
        // The frame does not exist.
      }
      return { frames: Number.POSITIVE_INFINITY, isCopied: false };
    },
  };
  return new WatchedFiles(watch, size, seenCommit);
}

/** Rounds in which a checkpoint waits for another connection's checkpoint, with a pause after each round. */
const CHECKPOINT_ROUNDS = 100;
const PAUSE_MS = 5;
const PAUSE = new Int32Array(new SharedArrayBuffer(4));

function pageBytesOf(database: Database): number {
  return database.prepare<{ page_size: number }>("PRAGMA page_size").get([])?.page_size ?? 0;
}

const WATCH_INTERVAL_MS = 1000;

/** Checks the database's files around each batch and once a second, and refuses every batch once the files are lost. */
function watched(
  connection: Connection,
  { files, forgotten }: { readonly files: WatchedFiles; readonly forgotten: ForgottenPages },
  onLost: LossListener,
): Connection {
  let isLost = false;
  let isIdle = true;
  function check(options: { isIdle: boolean }): void {
    try {
      files.check(options);
    } catch (error) {
      if (!isLost) onLost((error as Error).message, files.truncatedLog);
      isLost = true;
      throw error;
    }
  }
  const timer = setInterval(() => {
    try {
      check({ isIdle });
      forgotten.look({ isIdle });
    } catch {
      clearInterval(timer);
    }
    isIdle = true;
  }, WATCH_INTERVAL_MS);
  timer.unref();
  return {
    run(batch) {
      isIdle = false;
      check({ isIdle });
      const outcomes = connection.run(batch);
      if (batch.some(({ name }) => name === "shrink")) files.noteShrunk();
      if (batch.some(({ name }) => name === "forgetResult")) forgotten.noteForgotten();
      try {
        check({ isIdle });
      } catch (cause) {
        throw new UnknownOutcomeError("the database was lost during a commit", { cause });
      }
      return outcomes;
    },
    get pending() {
      return connection.pending;
    },
    get lastCallId() {
      return connection.lastCallId;
    },
    get leavesWork() {
      return connection.leavesWork;
    },
    close() {
      clearInterval(timer);
      connection.close();
      files.close();
    },
  };
}

const SHIFT_DUE =
  "UPDATE job_calls SET visible_at = visible_at + ?1, claimed_at = claimed_at + ?1 WHERE state IN ('leased', 'delayed')";

function writer(
  database: Database,
  { maxPending, now, lastCallId }: Extract<ConnectionRole, { role: "writer" }>,
): Connection {
  const counted = database
    .prepare<{ n: number }>("SELECT count(*) AS n FROM job_calls WHERE state != 'dead'")
    .get([]);
  const capacity = new Capacity(counted?.n ?? 0, maxPending);
  const undecided = new Undecided(database, capacity);
  undecided.recount(now);
  undecided.forget();
  const { operations, bulk, newCalls, effects } = writeOperations(database, capacity, undecided);
  newCalls.skipTo(lastCallId);
  let commitNumber = Number(readPragma(database, COMMIT_NUMBER_PRAGMA));
  let leavesWork = false;
  shortenFutureLeases(database, now);
  // Leases and delays keep their remaining time.
  const shifts = [SHIFT_DUE, ...PART_MODULES.flatMap(({ onClockStep = [] }) => onClockStep)].map((sql) =>
    database.prepare(sql),
  );
  const onClockStep = (stepMs: number) => {
    for (const shift of shifts) shift.run([stepMs]);
  };
  return {
    run(batch) {
      undecided.recount(batch[0]?.now ?? 0);
      const { pending } = capacity;
      const { lastId } = newCalls;
      const onRollback = () => {
        capacity.restore(pending);
        newCalls.discard(lastId);
        effects.discard();
      };
      const changesBefore = database.changes;
      let nextCommitNumber = commitNumber;
      const finish = () => {
        newCalls.write();
        effects.write();
        // A batch that changes nothing writes nothing.
        if (database.changes === changesBefore) return;
        nextCommitNumber = (commitNumber + 1) | 0;
        database.exec(`PRAGMA ${COMMIT_NUMBER_PRAGMA} = ${nextCommitNumber}`);
      };
      const outcomes = runBatch(batch, {
        database,
        operations,
        bulk,
        mode: "IMMEDIATE",
        finish,
        onClockStep,
        onRollback,
      });
      commitNumber = nextCommitNumber;
      leavesWork = effects.takeMadeReady();
      return outcomes;
    },
    get pending() {
      return capacity.counted;
    },
    get lastCallId() {
      return newCalls.lastId;
    },
    get leavesWork() {
      return leavesWork;
    },
    close: () => database.close(),
  };
}

/** Time at which a lease or delay was set. */
const SET_AT = "ifnull(claimed_at, history ->> '$[#-1].to')";

/**
 * Lets leases and delays begin now if they were set at a time in the future. That happens if the clock was set back, or if
 * jobgate restarts with a slow clock after a run with a correct clock. No lease then ends too early, however long ago it was
 * set.
 */
function shortenFutureLeases(database: Database, now: number): void {
  const shorten = database.prepare(
    `UPDATE job_calls INDEXED BY job_calls_waiting
        SET visible_at = ?1 + visible_at - ${SET_AT}, claimed_at = iif(claimed_at IS NULL, NULL, ?1)
      WHERE state IN ('leased', 'delayed') AND ?1 < ${SET_AT} AND ${SET_AT} < visible_at`,
  );
  shorten.run([now]);
}

function reader(
  database: Database,
  checkpoints: Extract<ConnectionRole, { role: "reader" }>["checkpoints"],
): Connection {
  const operations = readOperations(database);
  const guard =
    checkpoints && new CheckpointGuard(checkpoints.files, pageBytesOf(database), checkpoints.seenCommit);
  const stopCheckpoints = guard === undefined ? () => {} : startCheckpoints(database, guard);
  return {
    run: (batch) => runBatch(batch, { database, operations, mode: "DEFERRED", onRollback: () => {} }),
    pending: 0,
    lastCallId: 0,
    leavesWork: false,
    close() {
      stopCheckpoints();
      database.close();
      guard?.close();
    },
  };
}

/** Time between two checkpoints while much is written. */
const CHECKPOINT_INTERVAL_MS = 100;
/**
 * Time between two checkpoints while little is written. It is longer, because a checkpoint syncs the disk twice and commits
 * wait for that.
 */
const SLOW_CHECKPOINT_INTERVAL_MS = 300;
/** Number of pages in the log from which much is written: a tenth of the pages at which a commit itself checkpoints. */
const MANY_PAGES = AUTOCHECKPOINT_PAGES / 10;

/**
 * Copies the write-ahead log into the database file, on another connection than the writer's, so that little is left to copy
 * when the log reaches its bound and a commit has to copy it.
 * @returns a function that stops it
 */
function startCheckpoints(database: Database, guard: CheckpointGuard): () => void {
  const readVersion = database.prepare<{ data_version: number }>("PRAGMA data_version");
  const checkpoint = database.prepare<{ log: number }>("PRAGMA wal_checkpoint(PASSIVE)");
  let checkpointedVersion: number | undefined;
  let timer = setTimeout(look, CHECKPOINT_INTERVAL_MS);

  function look(): void {
    const pages = copyLog();
    timer = setTimeout(look, pages < MANY_PAGES ? SLOW_CHECKPOINT_INTERVAL_MS : CHECKPOINT_INTERVAL_MS);
  }

  /** @returns the number of pages that were in the log */
  function copyLog(): number {
    try {
      const version = readVersion.get([])?.data_version;
      if (version === checkpointedVersion || !guard.allowsCheckpoint) return 0;
      const pages = checkpoint.get([])?.log ?? 0;
      guard.checkpointed();
      checkpointedVersion = version;
      return pages;
    } catch {
      // Nothing is lost, because the log keeps the pages that were not copied, and the next round copies them. The next
      // write reports a full disk.
      return 0;
    }
  }

  return () => clearTimeout(timer);
}
