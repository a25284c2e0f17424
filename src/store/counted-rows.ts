import type { JobCallOrigin } from "../core/job-call.ts";
import type { PaymentState } from "../core/payment.ts";
import type { ListDialect } from "./list-dialect.ts";
import { PART_MODULES } from "./part-modules.ts";
import type { CallState } from "./rules/leases.ts";
import { type StoreTotals, TOTALS_OF_NO_PART } from "./store.ts";

/** Counts of rows. A lease that has run out counts as `ready`, as in a lookup. */
export interface CountedRows {
  readonly payments: readonly { state: PaymentState; n: number }[];
  /** Those among `payments` that are charged after they ran. */
  readonly byUse: readonly { state: UsedState; n: number }[];
  readonly calls: readonly { origin: JobCallOrigin; state: CallState; n: number }[];
  readonly results: readonly { state: "succeeded" | "failed"; n: number }[];
  /** Entries that were pruned, by the names of countedKinds. */
  readonly pruned: readonly { name: keyof typeof PRUNED; n: number }[];
  /** Dead paid JobCalls that their buyers were not charged for. */
  readonly uncharged: number;
  readonly oldestReadyAt: number | null;
  /** Rows of the queries of parts' modules, by the name of the query. */
  readonly [name: string]: unknown;
}

const COUNTED = PART_MODULES.flatMap(({ counted }) => counted ?? []);

/** Queries of the rows that modules of parts count. */
export function countsOfParts(dialect: ListDialect): { readonly name: string; readonly sql: string }[] {
  return COUNTED.flatMap(({ queries }) =>
    Object.entries(queries).map(([name, query]) => ({ name, sql: query(dialect) })),
  );
}

type UsedState = Exclude<PaymentState, "intent">;

/** Totals that a pruned entry counts in. */
const PRUNED = {
  settled: { payment: "settled" },
  failed: { payment: "failed" },
  used_settled: { payment: "settled", byUse: "settled" },
  used_failed: { payment: "failed", byUse: "failed" },
  used_released: { payment: "released", byUse: "released" },
  done: { call: "done" },
  dead: { call: "dead" },
  uncharged: { call: "dead", isUncharged: true },
} as const satisfies Record<
  string,
  {
    readonly payment?: PaymentState;
    readonly byUse?: UsedState;
    readonly call?: "done" | "dead";
    readonly isUncharged?: true;
  }
>;

export function toTotals(counted: CountedRows): StoreTotals {
  const byUse = { authorized: 0, settling: 0, settled: 0, released: 0, failed: 0, unresolved: 0 };
  const payments = { intent: 0, ...byUse };
  for (const { state, n } of counted.payments) payments[state] = n;
  for (const { state, n } of counted.byUse) byUse[state] = n;

  const calls = { held: 0, ready: 0, leased: 0, dead: 0 };
  const paidCalls = { ready: 0, leased: 0, done: 0, dead: 0 };
  for (const { origin, state, n } of counted.calls) {
    const total = state === "delayed" ? "ready" : state;
    calls[total] += n;
    if (origin === "x402" && total !== "held") paidCalls[total] += n;
  }
  for (const { state, n } of counted.results) paidCalls[state === "succeeded" ? "done" : "dead"] += n;
  let { uncharged } = counted;
  for (const { name, n } of counted.pruned) {
    const counts = PRUNED[name];
    if ("payment" in counts) payments[counts.payment] += n;
    if ("byUse" in counts) byUse[counts.byUse] += n;
    if ("call" in counts) paidCalls[counts.call] += n;
    if ("isUncharged" in counts) uncharged += n;
  }
  const kept = paidCalls.dead - uncharged;
  const oldestReadyAt = counted.oldestReadyAt ?? undefined;
  let sums: StoreTotals = {
    payments,
    byUse,
    calls,
    paidCalls,
    kept,
    uncharged,
    ...TOTALS_OF_NO_PART,
    oldestReadyAt,
  };
  for (const { totals } of COUNTED) sums = { ...sums, ...totals(counted, sums) };
  return sums;
}
