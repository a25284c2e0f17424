import type { OperationOutcome } from "../group-commit.ts";
import { Capacity } from "../new-call.ts";
import type { Database } from "./driver.ts";
import { openDatabase } from "./open-database.ts";
import { readOperations, writeOperations } from "./operations/index.ts";
import { runBatch, type TimedOperation } from "./transaction.ts";

/** Which connection to open. The writer makes the tables, so it comes first. */
export type ConnectionRole =
  | { readonly role: "writer"; readonly path: string; readonly maxPending: number }
  | { readonly role: "reader"; readonly path: string };

/** One open connection that runs batches of operations. Synchronous: for a worker thread, or for tests. */
export interface Connection {
  run(batch: readonly TimedOperation[]): OperationOutcome[];
  /** JobCalls not finished, as of the last batch; 0 for a reader. */
  readonly pending: number;
  close(): void;
}

/** @throws Error when the database cannot be opened */
export function openConnection(role: ConnectionRole): Connection {
  const database = openDatabase(role.path);
  return role.role === "writer" ? writer(database, role.maxPending) : reader(database);
}

function writer(database: Database, maxPending: number): Connection {
  const counted = database
    .prepare<{ n: number }>("SELECT count(*) AS n FROM job_calls WHERE state != 'dead'")
    .get([]);
  const capacity = new Capacity(counted?.n ?? 0, maxPending);
  const operations = writeOperations(database, capacity);
  return {
    run(batch) {
      const { pending } = capacity;
      const onRollback = () => capacity.restore(pending);
      return runBatch(batch, { database, operations, mode: "IMMEDIATE", onRollback });
    },
    get pending() {
      return capacity.pending;
    },
    close: () => database.close(),
  };
}

function reader(database: Database): Connection {
  const operations = readOperations(database);
  const stopCheckpoints = startCheckpoints(database);
  return {
    run: (batch) => runBatch(batch, { database, operations, mode: "DEFERRED", onRollback: () => {} }),
    pending: 0,
    close() {
      stopCheckpoints();
      database.close();
    },
  };
}

const CHECKPOINT_INTERVAL_MS = 100;

/**
 * Copies the write-ahead log into the database file, on another connection than the one that writes: little is left to
 * copy when the log reaches its bound and a commit has to do it.
 * @returns a function that stops it
 */
function startCheckpoints(database: Database): () => void {
  const readVersion = database.prepare<{ data_version: number }>("PRAGMA data_version");
  let checkpointedVersion: number | undefined;
  const timer = setInterval(() => {
    try {
      const version = readVersion.get([])?.data_version;
      if (version === checkpointedVersion) return;
      database.prepare("PRAGMA wal_checkpoint(PASSIVE)").all([]);
      checkpointedVersion = version;
    } catch {
      // Nothing is lost: the log keeps what was not copied, and the next round copies it. The next write reports a full
      // disk.
    }
  }, CHECKPOINT_INTERVAL_MS);
  return () => clearInterval(timer);
}
