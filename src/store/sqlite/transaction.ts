import type { OperationOutcome } from "../group-commit.ts";
import type { Database } from "./driver.ts";
import type { OperationOf, OperationTable } from "./operations/index.ts";

/** More operations of one batch that throw than this mean that it is the store that does not work. */
const MAX_CULPRITS = 3;

export interface TransactionOptions<Operations extends OperationTable> {
  readonly database: Database;
  readonly operations: Operations;
  /** `IMMEDIATE` to write. */
  readonly mode: "IMMEDIATE" | "DEFERRED";
  /** Undoes what the operations changed outside the database. */
  readonly onRollback: () => void;
}

/**
 * Runs a whole batch as one transaction. An operation that throws is left out with its error, and the rest is
 * run again, so that it harms no other.
 * @throws whatever kept the batch from being committed; then nothing of it was
 */
export function runBatch<Operations extends OperationTable>(
  batch: readonly OperationOf<Operations>[],
  options: TransactionOptions<Operations>,
): OperationOutcome[] {
  const { database, operations, mode, onRollback } = options;
  const culprits = new Map<number, string>();
  for (;;) {
    let running: number | undefined;
    try {
      database.exec(`BEGIN ${mode}`);
      const outcomes: OperationOutcome[] = [];
      for (const [index, { name, input, now }] of batch.entries()) {
        const error = culprits.get(index);
        running = index;
        outcomes.push(error === undefined ? { result: operations[name]?.(input, now) } : { error });
      }
      running = undefined;
      database.exec("COMMIT");
      return outcomes;
    } catch (error) {
      rollBack(database);
      onRollback();
      if (running === undefined || culprits.size === MAX_CULPRITS) throw error;
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
