import type { OperationOutcome } from "../group-commit.ts";
import type { Input, Operation, OperationName, Outcome } from "../operations.ts";
import type { Database } from "./driver.ts";

/** Functions that run operations inside a transaction. Each takes the time and the operation's arguments. */
export type OperationTable<Name extends OperationName> = {
  readonly [N in Name]: (now: number, ...input: Input<N>) => Outcome<N>;
};

/** An operation with the time at which it was asked for, which is when it happens. */
export type TimedOperation = Operation & {
  readonly now: number;
  /** Milliseconds by which the wall clock was set since the operation before. */
  readonly clockStepMs?: number;
};

/** Errors of the database itself (SQLITE_CORRUPT, SQLITE_IOERR, SQLITE_NOTADB, SQLITE_CANTOPEN), not of an operation. */
const DATABASE_FAULT = /malformed|disk I\/O error|not a database|unable to open database/;

/** More operations of one batch that throw than this mean that the store does not work. */
const MAX_CULPRITS = 3;

/**
 * Runs a whole batch as one transaction. An operation that throws is left out with its error and the rest runs again,
 * so that it harms no other.
 * @throws the error that kept the batch from being committed; then nothing of it was
 */
export function runBatch(
  batch: readonly TimedOperation[],
  options: {
    readonly database: Database;
    readonly operations: OperationTable<never>;
    /** `IMMEDIATE` to write. */
    readonly mode: "IMMEDIATE" | "DEFERRED";
    /** Moves times that were computed before the wall clock was set. */
    readonly onClockStep?: (stepMs: number) => void;
    /** Undoes changes that the operations made outside the database. */
    readonly onRollback: () => void;
  },
): OperationOutcome[] {
  const { database, mode, onClockStep, onRollback } = options;
  const operations = options.operations as Record<string, (now: number, ...input: unknown[]) => unknown>;
  const culprits = new Map<number, string>();
  for (;;) {
    let running: number | undefined;
    try {
      database.exec(`BEGIN ${mode}`);
      const outcomes: OperationOutcome[] = [];
      for (const [index, { name, input, now, clockStepMs = 0 }] of batch.entries()) {
        if (clockStepMs !== 0) onClockStep?.(clockStepMs);
        const error = culprits.get(index);
        running = index;
        outcomes.push(error === undefined ? { result: operations[name]?.(now, ...input) } : { error });
      }
      running = undefined;
      database.exec("COMMIT");
      return outcomes;
    } catch (error) {
      rollBack(database);
      onRollback();
      const isDatabaseFault = DATABASE_FAULT.test(String(error));
      if (running === undefined || isDatabaseFault || culprits.size === MAX_CULPRITS) throw error;
      culprits.set(running, String(error));
    }
  }
}

function rollBack(database: Database): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // SQLite has rolled back by itself, as it does when the disk is full.
  }
}
