import type { Capacity } from "../../../store/new-call.ts";
import type { Input, Outcome, WriteName } from "../../../store/operations.ts";
import type { Sql } from "../sql.ts";
import type { PostgresEffects } from "./effects.ts";

/** An operation of a batch, and the place for its outcome. */
export type Entry<Name extends WriteName = WriteName> = {
  [N in Name]: {
    readonly name: N;
    readonly input: Input<N>;
    decide(outcome: Outcome<N>): void;
  };
}[Name];

/** Selects the entries of some kinds, in their order. */
export function entriesOf<Name extends WriteName>(
  entries: readonly Entry[],
  ...names: readonly Name[]
): Entry<Name>[] {
  return entries.filter((entry): entry is Entry & Entry<Name> =>
    (names as readonly string[]).includes(entry.name),
  );
}

/** State of one transaction, after all rows on which its operations depend were read. */
export interface BatchContext {
  readonly sql: Sql;
  /** Unix milliseconds on the database's clock, the same for the whole batch. */
  readonly now: number;
  readonly capacity: Capacity;
  /** Returns a unique call ID. */
  takeCallId(): number;
  readonly effects: PostgresEffects;
  /** JobCalls that this batch made ready. */
  readonly madeReady: Set<number>;
  /** True when the batch will be rolled back, so that work of several rounds can stop. */
  hasFailed(): boolean;
}

/**
 * Runs the operations of some kinds. All parts first read together, and then write together, so that a batch costs the same
 * few round trips however many operations it contains.
 */
export interface BatchPart {
  /** Number of call IDs that the part may need. */
  readonly callIds: number;
  /**
   * Reads and locks the rows on which the outcomes depend. First declares the rows that reactions will need, and sends
   * its statements before it first waits.
   */
  load(sql: Sql, effects: PostgresEffects): Promise<void>;
  /** Decides each operation, in order, and writes the changes. It sends its statements before it waits for the first answer. */
  write(context: BatchContext): Promise<void>;
}

/**
 * Like Promise.all, but waits for all steps even when one fails, because a transaction must not be rolled back, and its
 * connection reused, while a step is still running in it.
 * @throws the error of the first step that failed, because the other steps may only have failed because of it
 */
export async function allSettled<T extends readonly unknown[] | []>(
  steps: T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  const all = Promise.all(steps);
  await Promise.allSettled([all, ...steps]);
  return all;
}
