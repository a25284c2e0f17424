import { PART_MODULES } from "../../../src/store/part-modules.ts";
import { SCHEMA } from "../../../src/store/sqlite/schema/migrations.ts";
import type { Normal } from "./normal.ts";

/** Time for which ended callbacks are kept. */
export const CALLBACK_KEPT_MS = 7 * 86_400_000;

/** Time for which finished transactions are kept. */
const FINISHED_MS = 86_400_000;

/** A row as the database returns it. */
export type Row = Readonly<Record<string, unknown>>;

/** Tables that the store modules of parts make. */
const PART_TABLES = PART_MODULES.flatMap(({ schema }) =>
  [...(schema?.sql(SCHEMA) ?? "").matchAll(/CREATE TABLE (\w+)/g)].map(([, name]) => String(name)),
);

/** Tables of both databases. Each has others, which only its own operations read. */
export const TABLES = [
  ...["job_calls", "job_bodies", "results", "result_chunks", "finished_calls", "payments"],
  ...["watched_payments", "offers", "one_time_nonces", "revenue_hours", "adopted_payments"],
  ...["refused_payments", "secrets", "deliveries", "pruned", "ended", ...PART_TABLES],
];

/** Columns with JSON, whose spelling differs. */
const JSON_COLUMNS = new Set(["history", "closed", "decision", "adopted", "more", "earlier_hashes"]);

/** Returns what the rows of a table say, in an order that only their content decides. */
export function contentOf(table: string, rows: readonly Row[], normal: Normal, now: number): string[] {
  const kept = rows.filter((row) => !isForgotten(table, row, now));
  const shown = table === "revenue_hours" ? sums(kept) : merged(kept).map((row) => columnsOf(row, normal));
  return shown.map((row) => JSON.stringify(row)).sort();
}

/** Rows that ended so long ago that a store may forget them at any time. */
function isForgotten(table: string, row: Row, now: number): boolean {
  if (table === "callbacks") return isBefore(row.ended_at, now - CALLBACK_KEPT_MS);
  return table === "settler_transactions" && isBefore(row.finished_at, now - FINISHED_MS);
}

function isBefore(at: unknown, time: number): boolean {
  return typeof at === "number" && at <= time;
}

/** Sums of each hour: SQLite has an amount in two parts, Postgres has several rows for an hour. */
function sums(rows: readonly Row[]): Row[] {
  const byHour = new Map<string, { amount: bigint; payments: number }>();
  for (const { hour, network, asset, symbol, payments, amount, high, low } of rows) {
    const key = [hour, network, asset, symbol].join(" ");
    const sum = byHour.get(key) ?? { amount: 0n, payments: 0 };
    const added =
      high === undefined ? BigInt(amount as string) : BigInt(Number(high)) * 10n ** 9n + BigInt(Number(low));
    byHour.set(key, { amount: sum.amount + added, payments: sum.payments + Number(payments) });
  }
  return [...byHour].map(([key, { amount, payments }]) => ({ key, amount: String(amount), payments }));
}

/** Counts and sums of days: Postgres has several rows of one key, in different slots. */
function merged(rows: readonly Row[]): readonly Row[] {
  if (rows[0]?.slot === undefined) return rows;
  const byKey = new Map<string, Row>();
  for (const { slot: _slot, ...row } of rows) {
    const numbers = SUMMED.filter((name) => name in row).map(
      (name) => [name, BigInt(row[name] as string)] as const,
    );
    const key = JSON.stringify(Object.entries(row).filter(([name]) => !SUMMED.includes(name)));
    const before = byKey.get(key);
    const added = numbers.map(([name, number]) => [
      name,
      String(number + BigInt(String(before?.[name] ?? 0))),
    ]);
    byKey.set(key, { ...row, ...Object.fromEntries(added) });
  }
  return [...byKey.values()];
}

/** Columns of {@link merged} that are added. */
const SUMMED = ["n", "payments", "sold", "refunded", "charged_back", "lost", "fees", "found", "taken_back"];

function columnsOf(row: Row, normal: Normal): unknown {
  const columns = Object.entries(row).flatMap(([name, value]): [string, unknown][] => {
    if (name === "id" && typeof value === "number") return [];
    if (typeof value === "boolean") return [[name, Number(value)]];
    const isJson = JSON_COLUMNS.has(name) && typeof value === "string";
    return [[name, isJson ? JSON.parse(value) : value]];
  });
  return normal.of(Object.fromEntries(columns.sort(([one], [other]) => (one < other ? -1 : 1))));
}
