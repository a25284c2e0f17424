import type { JobCallOrigin } from "../core/job-call.ts";
import type { PaymentState } from "../core/payment.ts";
import type { ListDialect } from "./list-dialect.ts";
import type { EndedName } from "./machine/ended.ts";
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
  /** Payments that are not decided. */
  readonly payments: readonly { state: PaymentState; n: number }[];
  /** Rows of `payments` that are charged after their jobs ran. */
  readonly deferred: readonly { state: UsedState; n: number }[];
  /** Ended entries, by the names of their counts. */
  readonly ended: readonly { name: EndedName; n: number }[];
  readonly calls: readonly { origin: JobCallOrigin; state: CallState; n: number }[];
  readonly oldestReady: readonly { at: number | null }[];
  /** Rows of the queries of parts' modules, by the name of the query. */
  readonly [name: string]: unknown;
}

const COUNTED = PART_MODULES.flatMap(({ counted }) => counted ?? []);

/** Returns the queries of the core. They count a JobCall with an expired lease as `ready`. @param now SQL of the store's time */
function ownQueries({ schema, indexedBy }: ListDialect, now: string): [name: string, query: CountQuery][] {
  const n = "count(*)";
  const open = (index: string, condition: string) => ({
    values: { state: "state", n },
    from: `FROM ${schema}payments${indexedBy(index)} WHERE ${condition} GROUP BY state`,
  });
  const isOpen = "state IN ('authorized', 'settling', 'unresolved')";
  const stateNow = `CASE WHEN state = 'leased' AND visible_at <= ${now} THEN 'ready' ELSE state END`;
  const dead = (origin: JobCallOrigin, groups: string) => ({
    values: { origin: `'${origin}'`, state: "'dead'", n },
    from: `FROM ${schema}job_calls${indexedBy("job_calls_dead_groups")} WHERE state = 'dead' AND dead_group ${groups}`,
  });
  return [
    ["payments", open("payments_by_state", "state IN ('intent', 'authorized', 'settling', 'unresolved')")],
    ["deferred", open("deferred_payments_open", `ceiling IS NOT NULL AND ${isOpen}`)],
    [
      "ended",
      { values: { name: "name", n: "sum(CAST(n AS bigint))" }, from: `FROM ${schema}ended GROUP BY name` },
    ],
    [
      "calls",
      {
        values: { origin: "origin", state: stateNow, n },
        from: `FROM ${schema}job_calls WHERE state <> 'dead' GROUP BY origin, ${stateNow}`,
      },
    ],
    ["calls", dead("webhook", "< 'x402'")],
    ["calls", dead("x402", ">= 'x402'")],
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

/** Totals that include the ended entries of each name. */
const ENDED_IN = {
  settled: { payment: "settled" },
  failed: { payment: "failed" },
  used_settled: { payment: "settled", deferred: "settled" },
  used_failed: { payment: "failed", deferred: "failed" },
  used_released: { payment: "released", deferred: "released" },
  done: { call: "done" },
  dead: { call: "dead" },
  uncharged: { isUncharged: true },
} as const satisfies Record<
  EndedName,
  {
    readonly payment?: PaymentState;
    readonly deferred?: UsedState;
    readonly call?: "done" | "dead";
    readonly isUncharged?: true;
  }
>;

const NAMES = [
  ...["payments", "deferred", "ended", "calls", "oldestReady"],
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
  let uncharged = 0;
  for (const { name, n } of counted.ended) {
    const counts = ENDED_IN[name];
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
