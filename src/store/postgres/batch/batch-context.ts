import type { Capacity } from "../../capacity.ts";
import type { Sql } from "../sql.ts";

/** One transaction, once everything that its operations depend on was read. */
export interface BatchContext {
  readonly sql: Sql;
  /** Unix milliseconds, by the database's clock: alike for the whole batch. */
  readonly now: number;
  readonly capacity: Capacity;
  /** A call id that nobody else gets. */
  takeCallId(): number;
  /** JobCalls that this batch made ready. */
  readonly madeReady: Set<number>;
  /** The batch will be rolled back: what takes several rounds need not go on. */
  hasFailed(): boolean;
}

/**
 * What a batch does with some kinds of operation. All kinds read first, together, and then write, together: a batch
 * costs the same few round trips however many operations it holds.
 */
export interface BatchPart {
  /** Call ids that it may need. */
  readonly callIds: number;
  /** Reads and locks the rows that decide. Statements are sent before it first waits. */
  load(sql: Sql): Promise<void>;
  /** Decides each operation, in order, and writes what follows. Statements are sent before it first waits. */
  write(context: BatchContext): Promise<void>;
}
