import type { Row } from "./tables.ts";
import type { Transaction } from "./transaction.ts";

/** Statements by their names. Each gets its parameters, and its SQL, which says which rows it locks. */
export type Statements = Readonly<
  Record<
    string,
    (tx: Transaction, values: readonly unknown[], text: string) => readonly Row[] | Promise<readonly Row[]>
  >
>;

/** Reads an array of numbers, which the driver sends as a text. */
export function arrayOf(value: unknown): number[] {
  if (Array.isArray(value)) return value as number[];
  const inner = String(value).slice(1, -1);
  return inner === ""
    ? []
    : inner.split(",").map((text) => (text === "NULL" ? (null as never) : Number(text)));
}

/** Reads rows that are sent as JSON. @param by columns of their order */
export function jsonRows(json: unknown, by: readonly string[] = []): Row[] {
  const rows = JSON.parse(String(json)) as Row[];
  const keyOf = (row: Row) => by.map((column) => row[column]).join("\0");
  return by.length === 0 ? rows : rows.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

/** Makes rows of columns, as `unnest` does. */
export function zipped(names: readonly string[], columns: readonly (readonly unknown[])[]): Row[] {
  return (columns[0] ?? []).map((_, index) =>
    Object.fromEntries(names.map((name, place) => [name, columns[place]?.[index]])),
  );
}

export function isIn(column: string, values: readonly unknown[]): (row: Row) => boolean {
  return (row) => values.includes(row[column]);
}

/** Returns true for rows that have the values of another one in some columns. */
export function isLike(other: Row, columns: readonly string[]): (row: Row) => boolean {
  return (row) => columns.every((column) => row[column] === other[column]);
}
