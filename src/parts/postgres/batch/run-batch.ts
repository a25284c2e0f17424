import { LEASE_STEPS } from "../../../store/machine/leases.ts";
import { PAYMENT_STEPS } from "../../../store/machine/payment-steps.ts";
import { MODULE_STEPS } from "../../../store/modules/modules.ts";
import { Capacity } from "../../../store/new-call.ts";
import type { Operation, WriteName } from "../../../store/operations.ts";
import { type Sql, statement } from "../sql.ts";
import { AcceptsPart } from "./accepts.ts";
import { allSettled, type BatchContext, type BatchPart, type Entry, entriesOf } from "./batch.ts";
import { PostgresCallRows } from "./call-rows.ts";
import { CallsPart } from "./calls.ts";
import { Claims } from "./claims.ts";
import { PostgresEffects } from "./effects.ts";
import { PaymentsPart } from "./payments.ts";
import { locksPart, StepsPart } from "./steps.ts";
import { countUncounted } from "./undecided.ts";

/** A batch that was run, and only has to be committed. */
export interface RanBatch {
  /** Outcome of each operation, in order. */
  readonly outcomes: readonly unknown[];
  /** True if JobCalls became ready that no claim of the batch has taken. */
  readonly leavesWork: boolean;
  /** Number of JobCalls that `max_pending` includes, once the batch is committed. */
  readonly pending: number;
  /** Change that the batch makes to that number. */
  readonly pendingChange: number;
  /** The database's clock at its beginning, Unix milliseconds. */
  readonly startedAt: number;
}

export interface RunBatchOptions {
  readonly maxPending: number;
  /** Replaces the database's clock in tests. */
  readonly clock: (() => number) | undefined;
}

const BEGIN = statement("begin", "BEGIN");
const READ_START = statement<{ now: number; pending: number }>(
  "read_start",
  `SELECT floor(extract(epoch FROM now()) * 1000)::bigint AS now,
          (SELECT sum(n)::bigint FROM jobgate.pending) AS pending`,
);
// The result is one row, because each row is a separate message.
const TAKE_CALL_IDS = statement<{ call_ids: string }>(
  "take_call_ids",
  "SELECT string_agg(nextval('jobgate.call_ids')::text, ',') AS call_ids FROM generate_series(1, $1::int)",
);

/**
 * Begins a transaction and runs all operations in it: one round trip reads the rows on which the outcomes depend, and
 * one round trip writes the changes. Only a claim that finds dead letters needs more.
 */
export async function runBatch(
  sql: Sql,
  operations: readonly Operation<WriteName>[],
  options: RunBatchOptions,
): Promise<RanBatch> {
  const outcomes: unknown[] = operations.map(() => undefined);
  const entries = operations.map(({ name, input }, index) => {
    const decide = (outcome: unknown) => {
      outcomes[index] = outcome;
    };
    return { name, input, decide } as Entry;
  });
  const testNow = options.clock?.() ?? null;
  const effects = new PostgresEffects(testNow);
  const madeReady = new Set<number>();
  const callRows = new PostgresCallRows(madeReady);
  const parts = partsOf(entries, callRows, testNow);
  const claims = new Claims(entriesOf(entries, "claim", "expireLeases"), callRows, testNow);
  const callIdCount = parts.reduce((total, { callIds }) => total + callIds, 0);

  const [, [start], [taken]] = await allSettled([
    sql.run(BEGIN),
    sql.run(READ_START),
    callIdCount === 0 ? [] : sql.run(TAKE_CALL_IDS, [callIdCount]),
    ...parts.map((part) => part.load(sql, effects)),
    claims.load(sql, effects),
    // This runs after the parts have locked their rows.
    effects.load(sql),
  ]);
  await effects.keys.load(sql, effects.rows);
  if (start === undefined) throw new Error("Postgres gave no row");

  const looksFull = start.pending + callIdCount >= options.maxPending;
  const uncounted = looksFull ? await countUncounted(sql, testNow) : 0;
  const capacity = new Capacity(start.pending, options.maxPending, uncounted);
  let hasFailed = false;
  const context: BatchContext = {
    sql,
    hasFailed: () => hasFailed,
    now: options.clock?.() ?? start.now,
    capacity,
    effects,
    takeCallId: callIdGiver(taken?.call_ids.split(",").map(Number) ?? []),
    madeReady,
  };
  const steps = [...parts.map((part) => part.write(context)), effects.write(context), claims.run(context)];
  const noteFailure = () => {
    hasFailed = true;
  };
  for (const step of steps) step.catch(noteFailure);
  await allSettled(steps);
  return {
    outcomes,
    leavesWork: context.madeReady.size > 0 || effects.leavesWork,
    pending: capacity.counted,
    pendingChange: capacity.pending - start.pending,
    startedAt: start.now,
  };
}

function partsOf(entries: readonly Entry[], callRows: PostgresCallRows, now: number | null): BatchPart[] {
  return [
    new PaymentsPart(entriesOf(entries, "beginPayment", ...PAYMENT_STEPS, "endWatches"), now),
    locksPart(entriesOf(entries, "holdLock")),
    new CallsPart(entriesOf(entries, ...LEASE_STEPS), callRows),
    new AcceptsPart(entriesOf(entries, "accept", "acceptOnce")),
    new StepsPart(entriesOf(entries, ...MODULE_STEPS.map(([name]) => name))),
  ];
}

function callIdGiver(callIds: readonly number[]): () => number {
  const rising = callIds.toSorted((left, right) => left - right);
  let next = 0;
  return () => {
    const callId = rising[next];
    next += 1;
    if (callId === undefined) throw new Error("a batch needs more call ids than it asked for");
    return callId;
  };
}
