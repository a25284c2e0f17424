import { UnknownOutcomeError } from "../../core/errors.ts";
import type { OperationOutcome } from "../group-commit.ts";
import { type Input, type Operation, type OperationName, type Outcome, runsLast } from "../operations.ts";
import type { Database } from "./driver.ts";

/** Functions that run operations inside a transaction. Each takes the time and the operation's arguments. */
export type OperationTable<Name extends OperationName> = {
  readonly [N in Name]: (now: number, ...input: Input<N>) => Outcome<N>;
};

/** An operation with the time of its call, which is also its effective time. */
export type TimedOperation = Operation & {
  readonly now: number;
  /** Milliseconds by which the wall clock was set after the operation before this one. */
  readonly clockStepMs?: number;
};

/** Errors of the database itself (SQLITE_CORRUPT, SQLITE_IOERR, SQLITE_NOTADB, SQLITE_CANTOPEN), not of an operation. */
const DATABASE_FAULT = /malformed|disk I\/O error|not a database|unable to open database/;

/** Number of failing operations in one batch above which the store itself is considered broken. */
const MAX_CULPRITS = 3;

/**
 * Functions that run any number of operations of one kind in a few statements, with the same outcomes as running them one by
 * one. Calling SQLite costs more than a row: 6 instead of 13 µs for an ack.
 */
export type BulkTable<Name extends OperationName> = {
  readonly [N in Name]: (
    operations: readonly { readonly now: number; readonly input: Input<N> }[],
  ) => Outcome<N>[];
};

interface BatchOptions {
  readonly database: Database;
  readonly operations: OperationTable<never>;
  /** Bulk functions for operations that `operations` does not contain. */
  readonly bulk?: BulkTable<never>;
  /** `IMMEDIATE` to write. */
  readonly mode: "IMMEDIATE" | "DEFERRED";
  /** Writes the rows that the operations have left for the end of the batch. */
  readonly finish?: () => void;
  /** Shifts times that were computed before the wall clock was set. */
  readonly onClockStep?: (stepMs: number) => void;
  /** Undoes changes that the operations made outside the database. */
  readonly onRollback: () => void;
}

/**
 * Runs a whole batch as one transaction. When an operation throws, the batch runs again, one operation after the other.
 * If an operation throws again, its caller gets the error. The other operations then run again without it, so that they
 * are not affected.
 * @throws UnknownOutcomeError when the disk failed during the commit
 * @throws the error that prevented the commit; nothing of the batch is committed then
 */
export function runBatch(batch: readonly TimedOperation[], options: BatchOptions): OperationOutcome[] {
  // A step of the clock shifts only the rows that earlier operations wrote.
  if (batch.some(({ clockStepMs = 0 }) => clockStepMs !== 0)) return runInOrder(batch, options);
  const { database, mode, onRollback } = options;
  let isRunning = false;
  try {
    database.exec(`BEGIN ${mode}`);
    isRunning = true;
    const outcomes = runGrouped(batch, options);
    options.finish?.();
    isRunning = false;
    commit(database);
    return outcomes;
  } catch (error) {
    rollBack(database);
    onRollback();
    if (!isRunning || isDatabaseFault(error)) throw error;
    return runInOrder(batch, options);
  }
}

type AnyOperation = (now: number, ...input: readonly unknown[]) => unknown;
type AnyBulk = (operations: readonly TimedOperation[]) => unknown[];

/** Runs the operations in the order of their stages, with adjacent operations of one kind together. */
function runGrouped(batch: readonly TimedOperation[], options: BatchOptions): OperationOutcome[] {
  const outcomes: OperationOutcome[] = [];
  for (const indices of groupsOf(batch)) {
    const results = runAlike(
      indices.map((index) => batch[index] as TimedOperation),
      options,
    );
    for (const [position, index] of indices.entries()) outcomes[index] = { result: results[position] };
  }
  return outcomes;
}

/** Runs operations of one kind. @returns their results, in order */
function runAlike(group: readonly TimedOperation[], options: BatchOptions): unknown[] {
  const operations = options.operations as Record<string, AnyOperation>;
  const bulk = options.bulk as Record<string, AnyBulk> | undefined;
  const name = group[0]?.name ?? "";
  return bulk?.[name]?.(group) ?? group.map(({ name, now, input }) => operations[name]?.(now, ...input));
}

/**
 * Returns the positions of a batch's operations in the order in which they run, grouped by kind. Reordering is allowed
 * because all operations of a batch were called before any of them was answered. Operations on one JobCall or payment are in
 * one stage, so they keep their order.
 */
function groupsOf(batch: readonly TimedOperation[]): number[][] {
  const stages: number[][] = [[], [], [], []];
  for (const [index, operation] of batch.entries()) stages[stageOf(operation)]?.push(index);
  const groups: number[][] = [];
  let last: OperationName | undefined;
  for (const index of stages.flat()) {
    const name = batch[index]?.name;
    if (name === last) groups.at(-1)?.push(index);
    else groups.push([index]);
    last = name;
  }
  return groups;
}

const ENDS_LEASE: ReadonlySet<OperationName> = new Set([
  ...(["ack", "retry", "fail", "extend", "release", "appendResult"] as const),
]);
const ACCEPTS: ReadonlySet<OperationName> = new Set(["accept", "acceptOnce"]);

/** Returns the stage of its batch that an operation runs in. Leases end before accepts, because they free places. */
function stageOf(operation: Operation): 0 | 1 | 2 | 3 {
  if (runsLast(operation)) return 3;
  if (ACCEPTS.has(operation.name)) return 2;
  return ENDS_LEASE.has(operation.name) ? 1 : 0;
}

/** Runs one operation after the other, in the order of their calls. */
function runInOrder(batch: readonly TimedOperation[], options: BatchOptions): OperationOutcome[] {
  const { database, mode, finish, onClockStep, onRollback } = options;
  const culprits = new Map<number, string>();
  for (;;) {
    let running: number | undefined;
    try {
      database.exec(`BEGIN ${mode}`);
      const outcomes: OperationOutcome[] = [];
      for (const [index, operation] of batch.entries()) {
        const { clockStepMs = 0 } = operation;
        if (clockStepMs !== 0) onClockStep?.(clockStepMs);
        const error = culprits.get(index);
        running = index;
        outcomes.push(error === undefined ? { result: runAlike([operation], options)[0] } : { error });
        finish?.();
      }
      running = undefined;
      commit(database);
      return outcomes;
    } catch (error) {
      rollBack(database);
      onRollback();
      if (running === undefined || isDatabaseFault(error) || culprits.size === MAX_CULPRITS) throw error;
      culprits.set(running, String(error));
    }
  }
}

/** Commits. Even if the sync fails, the log may contain the whole commit, and the next start then finds it. */
function commit(database: Database): void {
  try {
    database.exec("COMMIT");
  } catch (cause) {
    throw isDatabaseFault(cause) ? new UnknownOutcomeError(String(cause), { cause }) : cause;
  }
}

function isDatabaseFault(error: unknown): boolean {
  return DATABASE_FAULT.test(String(error));
}

function rollBack(database: Database): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // SQLite has already rolled back, as it does when the disk is full.
  }
}
