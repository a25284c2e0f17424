import type { ListDialect } from "./list-dialect.ts";

export type SqlValue = string | number | null;

/** A table whose rows are found by their key. */
export interface Table<Row extends ValuesOf<Row>, Key extends keyof Row> {
  readonly name: string;
  readonly key: readonly (Key & string)[];
  /** Columns that are read and written, including the columns of the key. */
  readonly columns: readonly (keyof Row & string)[];
}

export type ValuesOf<Row> = { readonly [Column in keyof Row]: SqlValue };

/** A row's key in a table. */
export interface RowKey {
  // biome-ignore lint/suspicious/noExplicitAny: the key fits the table, which keyIn checks.
  readonly table: Table<any, any>;
  readonly key: Readonly<Record<string, SqlValue>>;
}

export function keyIn<Row extends ValuesOf<Row>, Key extends keyof Row>(
  table: Table<Row, Key>,
  key: Readonly<Pick<Row, Key>>,
): RowKey {
  return { table, key: key as RowKey["key"] };
}

/** Rows of a table that are old. Each step that adds rows deletes more old rows than it adds, so that old rows never pile up. */
export interface OldRows {
  readonly table: string;
  /**
   * SQL condition.
   * @param before parameter with the time up to which rows are old
   * @param most SQL of the largest number of rows that are deleted
   */
  readonly where: (dialect: Pick<ListDialect, "schema">, before: string, most: string) => string;
  /** Most rows that one step deletes. */
  readonly limit: number;
}

/** Describes the rows of a table whose time in a column has passed. */
export function endedRows(table: string, column: string, limit: number): OldRows {
  return { table, where: (_dialect, before) => `${column} <= ${before}`, limit };
}

/** Rows that steps and reactions read and write, including the changes by earlier steps of the commit. */
export interface Rows {
  /** Finds a row whose key the step named, or whose JobCall the commit may end. */
  find<Row extends ValuesOf<Row>, Key extends keyof Row>(
    table: Table<Row, Key>,
    key: Readonly<Pick<Row, Key>>,
  ): Row | undefined;
  /** Adds a row, or replaces the row with its key if the step named the key. */
  put<Row extends ValuesOf<Row>, Key extends keyof Row>(table: Table<Row, Key>, row: Readonly<Row>): void;
  /** Returns all rows of a small table. */
  all<Row extends ValuesOf<Row>, Key extends keyof Row>(table: Table<Row, Key>): readonly Row[];
  /** Deletes a row of a small table. */
  remove<Row extends ValuesOf<Row>, Key extends keyof Row>(
    table: Table<Row, Key>,
    key: Readonly<Pick<Row, Key>>,
  ): void;
  /** Adds a row whose key the database generates, unless the table has an equal row. */
  add<Row extends ValuesOf<Row>, Key extends keyof Row>(
    table: Table<Row, Key>,
    row: Readonly<Omit<Row, Key>>,
  ): void;
  /**
   * Adds to the numbers of a row, which are the decimal columns outside its key. Creates the row if it is missing.
   * Concurrent commits can add to one row, because adding does not read it. If the key has a column `slot`, Postgres gives
   * each connection a separate row.
   */
  count<Row extends ValuesOf<Row>, Key extends keyof Row>(table: Table<Row, Key>, by: Readonly<Row>): void;
  /** Deletes rows that are old. @param before Unix milliseconds, or seconds in a column of seconds */
  forget(old: OldRows, before: number): void;
}

/**
 * Returns a row whose numbers are increased by the numbers of another row with its key. @param row undefined if there is no
 * such row yet
 */
export function added(
  { key, columns }: RowKey["table"],
  row: Readonly<Record<string, SqlValue>> | undefined,
  by: Readonly<Record<string, SqlValue>>,
): Record<string, SqlValue> {
  const sums: Record<string, SqlValue> = {};
  for (const column of columns) {
    const more = by[column] ?? null;
    const before = row?.[column] ?? null;
    if (row === undefined || key.includes(column)) sums[column] = more;
    // Most numbers do not change, because a payment adds to only one or two of them.
    else sums[column] = more === "0" ? before : String(BigInt(before ?? 0) + BigInt(more ?? 0));
  }
  return sums;
}
