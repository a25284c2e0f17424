import type { Client, ClientBase } from "pg";
import type { ListDialect } from "../../store/list-dialect.ts";

/** A query that each connection plans once; `Row` is the type of its rows. */
export interface Statement<Row> {
  readonly name: string;
  readonly text: string;
  /** Carries only the type. */
  readonly row?: Row;
}

/** @param name unique among all statements: connections keep the plan under it */
export function statement<Row = Record<string, never>>(name: string, text: string): Statement<Row> {
  return { name, text };
}

/** Unix milliseconds: the first parameter, which tests set, or the database's clock. */
export const NOW = "COALESCE($1::bigint, floor(extract(epoch FROM now()) * 1000)::bigint)";

/** Array of numbers as a parameter. The driver would quote and escape each of them. */
export function numberArray(values: readonly (number | null)[]): string {
  return `{${values.map((value) => value ?? "NULL").join()}}`;
}

/**
 * Runs statements on one connection. Several statements that are run without waiting share a round trip, and take
 * effect in order.
 */
export interface Sql {
  run<Row>(statement: Statement<Row>, values?: readonly unknown[]): Promise<Row[]>;
}

/** SQLSTATE of statements that follow a failed statement in the same transaction. */
const TRANSACTION_ABORTED = "25P02";

/** @param client if the client keeps no session, each statement outside a transaction runs in its own transaction */
export function sqlOf(client: ClientBase & { readonly begin?: string | undefined }): Sql {
  const { stream } = (client as Client).connection;
  const { begin } = client;
  let failure: unknown;

  async function send<Row>(
    query: { readonly name?: string; readonly text: string },
    values: readonly unknown[] = [],
  ) {
    // All statements of a tick share one write, because each write would wake the server.
    if (stream.writableCorked === 0) {
      stream.cork();
      process.nextTick(() => stream.uncork());
    }
    try {
      const { rows } = await client.query({ ...query, values: [...values] });
      return rows as Row[];
    } catch (error) {
      // The first error that a caller gets from a failed transaction is the original error, which shows whether the
      // transaction may be repeated.
      if ((error as { readonly code?: unknown }).code === TRANSACTION_ABORTED) throw failure ?? error;
      failure = error;
      throw error;
    }
  }

  if (begin === undefined) return { run: ({ name, text }, values) => send({ name, text }, values) };
  let isOpen = false;
  return {
    async run<Row>({ text }: Statement<Row>, values?: readonly unknown[]) {
      if (text === "BEGIN") {
        isOpen = true;
        return send<Row>({ text: begin });
      }
      if (isOpen || text === "ROLLBACK") {
        isOpen = text !== "COMMIT" && text !== "ROLLBACK";
        return send<Row>({ text }, values);
      }
      const all = [send({ text: begin }), send<Row>({ text }, values), send({ text: "COMMIT" })] as const;
      await Promise.allSettled(all);
      return (await Promise.all(all))[1];
    },
  };
}

/**
 * Makes free text storable: Postgres cannot keep U+0000 or half a surrogate pair in a text, and would refuse everything
 * that is written together with it.
 */
export function storable(text: string): string;
export function storable(text: string | undefined): string | null;
export function storable(text: string | undefined): string | null {
  return text === undefined ? null : Buffer.from(text).toString().replaceAll("\0", "\uFFFD");
}

/** Makes a value {@link storable}. */
export function toStorable<Value>(value: Value): Value {
  return typeof value === "string" ? (storable(value) as Value) : value;
}

/** Writes rows as JSON, with all texts {@link storable}. */
export function toJson(rows: readonly object[]): string {
  return JSON.stringify(rows, (_, value: unknown) => toStorable(value));
}

/** SQL of the operator's lists. */
export const LIST_DIALECT: ListDialect = {
  schema: "jobgate.",
  parameter: (number) => `$${number}`,
  now: (parameter) => NOW.replace("$1", parameter),
  indexedBy: () => "",
  // Compares rows in the index's own order, because otherwise the planner would read the primary key backwards and
  // filter.
  within({ keys, id }, { before, from }) {
    const columns = [...keys.map(({ column }) => column), id].join(", ");
    const values = (end: string) => [...keys.map(({ value }) => value), end].join(", ");
    return `(${columns}) < (${values(before)}) AND (${columns}) >= (${values(from)})`;
  },
  newestFirst: ({ keys, id }) =>
    [...keys.map(({ column }) => column), id].map((column) => `${column} DESC`).join(", "),
  // The planner cannot tell that a query selects few values, and would compare each row with all of them.
  among: (column, selected) => `${column} = ANY (ARRAY(${selected}))`,
  ofEach: (table, selected) =>
    `CROSS JOIN LATERAL (SELECT * FROM jobgate.${table} WHERE ${selected}) AS ${table}`,
  sumOf: (column) => `sum(${column}::numeric)::text`,
  hourAmount: "amount::text",
  jsonObject: "json_build_object",
  contains: (bytes, part) => `position(${part}::bytea IN ${bytes}) > 0`,
};
