import type { JobCallOrigin } from "../core/job-call.ts";
import type { PaymentState } from "../core/payment.ts";
import type { ListDialect } from "./list-dialect.ts";
import type { CountQuery } from "./module.ts";
import { PART_MODULES } from "./part-modules.ts";
import type { CallState } from "./rules/leases.ts";
import { type StoreTotals, TOTALS_OF_NO_PART } from "./store.ts";

/** Row of a query, as JSON text. */
export interface NamedRow {
  readonly name: string;
  readonly json: string;
}

/** Rows of the queries by their names. */
interface CountedRows {
  readonly payments: readonly { state: PaymentState; n: number }[];
  /** Rows of `payments` that are charged after their jobs ran. */
  readonly deferred: readonly { state: UsedState; n: number }[];
  readonly calls: readonly { origin: JobCallOrigin; state: CallState; n: number }[];
  readonly results: readonly { state: "succeeded" | "failed"; n: number }[];
  /** Entries that were pruned, by the names of countedKinds. */
  readonly pruned: readonly { name: keyof typeof PRUNED; n: number }[];
  /** Dead JobCalls that were paid for and whose buyers were not charged. */
  readonly uncharged: readonly { n: number }[];
  readonly oldestReady: readonly { at: number | null }[];
  /** Rows of the queries of parts' modules, by the name of the query. */
  readonly [name: string]: unknown;
}

const COUNTED = PART_MODULES.flatMap(({ counted }) => counted ?? []);

/** Returns the queries that count the core's rows. They count a JobCall with an expired lease as `ready`. @param now SQL of the store's time */
function ownQueries({ schema, indexedBy }: ListDialect, now: string): [name: string, query: CountQuery][] {
  const n = "count(*)";
  const byState = (from: string) => ({
    values: { state: "state", n },
    from: `FROM ${schema}${from} GROUP BY state`,
  });
  const uncharged = (table: string, state: string) => ({
    values: { n },
    from: `FROM ${schema}payments WHERE state = 'released' AND EXISTS (
      SELECT 1 FROM ${schema}${table} AS other WHERE other.call_id = payments.call_id AND other.state = '${state}')`,
  });
  const stateNow = `CASE WHEN state = 'leased' AND visible_at <= ${now} THEN 'ready' ELSE state END`;
  const dead = (origin: JobCallOrigin, groups: string) => ({
    values: { origin: `'${origin}'`, state: "'dead'", n },
    from: `FROM ${schema}job_calls${indexedBy("job_calls_dead_groups")} WHERE state = 'dead' AND dead_group ${groups}`,
  });
  return [
    ["payments", byState("payments")],
    ["deferred", byState(`payments${indexedBy("deferred_payments")} WHERE ceiling IS NOT NULL`)],
    ["uncharged", uncharged("job_calls", "dead")],
    ["uncharged", uncharged("results", "failed")],
    [
      "calls",
      {
        values: { origin: "origin", state: stateNow, n },
        from: `FROM ${schema}job_calls WHERE state <> 'dead' GROUP BY origin, ${stateNow}`,
      },
    ],
    ["calls", dead("webhook", "< 'x402'")],
    ["calls", dead("x402", ">= 'x402'")],
    ["results", byState("results")],
    ["pruned", { values: { name: "name", n: "n" }, from: `FROM ${schema}pruned` }],
    [
      "oldestReady",
      {
        values: { at: "min(enqueued_at)" },
        from: `FROM ${schema}job_calls
          WHERE state IN ('ready', 'delayed') OR state = 'leased' AND visible_at <= ${now}`,
      },
    ],
  ];
}

/** SQL that selects {@link NamedRow}s. A single statement reads one state of the database, in which the journal balances. */
export function countRows(dialect: ListDialect, now: string): string {
  const ofParts = COUNTED.flatMap(({ queries }) =>
    Object.entries(queries).map(([name, query]) => [name, query(dialect)] as const),
  );
  const selects = [...ownQueries(dialect, now), ...ofParts].map(([name, { values, from }]) => {
    const members = Object.entries(values).map(([name, value]) => `'${name}', ${value}`);
    return `SELECT '${name}' AS name, CAST(${dialect.jsonObject}(${members.join()}) AS text) AS json ${from}`;
  });
  return `${selects.join("\nUNION ALL ")}\nORDER BY 1, 2`;
}

type UsedState = Exclude<PaymentState, "intent">;

/** Totals that include a pruned entry. */
const PRUNED = {
  settled: { payment: "settled" },
  failed: { payment: "failed" },
  used_settled: { payment: "settled", deferred: "settled" },
  used_failed: { payment: "failed", deferred: "failed" },
  used_released: { payment: "released", deferred: "released" },
  done: { call: "done" },
  dead: { call: "dead" },
  uncharged: { call: "dead", isUncharged: true },
} as const satisfies Record<
  string,
  {
    readonly payment?: PaymentState;
    readonly deferred?: UsedState;
    readonly call?: "done" | "dead";
    readonly isUncharged?: true;
  }
>;

const NAMES = [
  ...["payments", "deferred", "uncharged", "calls", "results", "pruned", "oldestReady"],
  ...COUNTED.flatMap(({ queries }) => Object.keys(queries)),
];

/** Converts the rows of {@link countRows} to totals. */
export function toTotals(rows: readonly NamedRow[]): StoreTotals {
  const ofName = (wanted: string) =>
    rows.flatMap(({ name, json }) => (name === wanted ? [JSON.parse(json) as unknown] : []));
  const counted = Object.fromEntries(NAMES.map((name) => [name, ofName(name)])) as unknown as CountedRows;
  const deferred = { authorized: 0, settling: 0, settled: 0, released: 0, failed: 0, unresolved: 0 };
  const payments = { intent: 0, ...deferred };
  for (const { state, n } of counted.payments) payments[state] = n;
  for (const { state, n } of counted.deferred) deferred[state] = n;

  const calls = { held: 0, ready: 0, leased: 0, dead: 0 };
  const paidCalls = { ready: 0, leased: 0, done: 0, dead: 0 };
  for (const { origin, state, n } of counted.calls) {
    const total = state === "delayed" ? "ready" : state;
    calls[total] += n;
    if (origin === "x402" && total !== "held") paidCalls[total] += n;
  }
  for (const { state, n } of counted.results) paidCalls[state === "succeeded" ? "done" : "dead"] += n;
  let uncharged = counted.uncharged.reduce((sum, { n }) => sum + n, 0);
  for (const { name, n } of counted.pruned) {
    const counts = PRUNED[name];
    if ("payment" in counts) payments[counts.payment] += n;
    if ("deferred" in counts) deferred[counts.deferred] += n;
    if ("call" in counts) paidCalls[counts.call] += n;
    if ("isUncharged" in counts) uncharged += n;
  }
  const kept = paidCalls.dead - uncharged;
  const oldestReadyAt = counted.oldestReady[0]?.at ?? undefined;
  let sums: StoreTotals = {
    payments,
    deferred,
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
