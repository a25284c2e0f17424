/** SQL that differs between dialects. */
export interface ListDialect {
  /** Prefix of table names: empty, or with a dot at its end. */
  readonly schema: string;
  /** SQL of the parameter with a number from 1. */
  parameter(number: number): string;
  /** SQL of the store's time. @param parameter replaces the store's time, unless it is null */
  now(parameter: string): string;
  /** SQL after a table's name that names the index; empty if the planner finds the index itself. */
  indexedBy(index: string): string;
  /** SQL condition that the keys have their values, and that the ID is below `before` and not below `from`. */
  within(index: IndexColumns, range: { readonly before: string; readonly from: string }): string;
  /** SQL order of the rows that {@link within} selects, newest first. */
  newestFirst(index: IndexColumns): string;
  /** SQL condition that the value of a column is among the values that a query selects. */
  among(column: string, selected: string): string;
  /** SQL that joins each row of the preceding query with rows of a table. @param selected condition, order and limit */
  ofEach(table: string, selected: string): string;
  /** SQL of the sum of a column with decimal digits, as text. */
  sumOf(column: string): string;
  /** SQL of the amount of a row of `revenue_hours`, with decimal digits. */
  readonly hourAmount: string;
  /** SQL function that makes a JSON object of names and values. */
  readonly jsonObject: string;
  /** SQL condition that bytes contain other bytes. */
  contains(bytes: string, part: string): string;
}

/** An index whose last column is the ID. */
interface IndexColumns {
  readonly keys: readonly { readonly column: string; readonly value: string }[];
  readonly id: string;
}

export interface Query {
  /** Name under which connections keep the query's plan. A query without a name is planned for its values. */
  readonly name?: string;
  readonly sql: string;
  readonly values: readonly QueryValue[];
}

/**
 * A lookup of several queries, which yields each query and receives its rows. Dialects run it synchronously or
 * asynchronously.
 */
export type Lookup<Result> = Generator<Query, Result, readonly unknown[]>;
type QueryValue = string | number | null | Uint8Array;

/** Adds a parameter to a query. @returns its SQL */
export type Add = (value: QueryValue) => string;

/** Parameters of one query, in the order in which they are added. */
export function parameters(dialect: ListDialect): { readonly values: QueryValue[]; readonly add: Add } {
  const values: QueryValue[] = [];
  const add = (value: QueryValue) => dialect.parameter(values.push(value));
  return { values, add };
}
