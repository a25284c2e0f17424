import type { ListDialect, Lookup } from "../../list-dialect.ts";
import type { Commit } from "../../module.ts";
import { type LookupName, MODULE_LOOKUPS, MODULE_STEPS, type StepName } from "../../modules/modules.ts";
import { nobodyKeeps } from "../../part-modules.ts";
import type { OldRows, RowKey, Rows, SqlValue } from "../../rows.ts";
import type { Database, Statement } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";

/** Digits of the lower part of an amount. Amounts go up to 2^64 - 1, and SQLite's sums end at 2^63 - 1. */
const LOW_DIGITS = 9;

const highPart = (digits: string) =>
  `CAST(substr(${digits}, 1, max(0, length(${digits}) - ${LOW_DIGITS})) AS INTEGER)`;
const lowPart = (digits: string) => `CAST(substr(${digits}, -${LOW_DIGITS}) AS INTEGER)`;

export const DIALECT: ListDialect = {
  schema: "",
  parameter: (number) => `?${number}`,
  now: (parameter) => parameter,
  indexedBy: (index) => ` INDEXED BY ${index}`,
  within: ({ keys, id }, { before, from }) =>
    [
      ...keys.map(({ column, value }) => `${column} = ${value}`),
      `${id} < ${before}`,
      `${id} >= ${from}`,
    ].join(" AND "),
  newestFirst: ({ id }) => `${id} DESC`,
  ofEach: (table, selected) =>
    `CROSS JOIN ${table} ON ${table}.rowid IN (SELECT rowid FROM ${table} WHERE ${selected})`,
  // Sums in two parts, because numbers end at 2^63 - 1.
  sumOf: (column) => `printf('%d%09d', sum(${highPart(column)}) + sum(${lowPart(column)}) / 1000000000,
      sum(${lowPart(column)}) % 1000000000)`,
  hourAmount: "printf('%d%09d', high + low / 1000000000, low % 1000000000)",
  jsonObject: "json_object",
  contains: (bytes, part) => `instr(${bytes}, ${part}) > 0`,
};

/** Operations of modules on the connection that writes. */
export function stepOperations(commit: Commit): OperationTable<StepName> {
  const operations = MODULE_STEPS.map(([name, step]) => [
    name,
    (now: number, ...input: readonly unknown[]) => step.run(commit, now, ...input),
  ]);
  return Object.fromEntries(operations) as OperationTable<StepName>;
}

/** Operations of modules that only read. A lookup is one transaction, and so sees one state of the database. */
export function lookupOperations(database: Database): OperationTable<LookupName> {
  const prepared = new Map<string, Statement<unknown>>();

  function statementOf(sql: string, name: string | undefined): Statement<unknown> {
    const statement = (name === undefined ? undefined : prepared.get(name)) ?? database.prepare(sql);
    if (name !== undefined) prepared.set(name, statement);
    return statement;
  }

  function run(lookup: Lookup<unknown>): unknown {
    let step = lookup.next([]);
    while (!step.done) {
      const { name, sql, values } = step.value;
      step = lookup.next(statementOf(sql, name).all(values).map(withBytes));
    }
    return step.value;
  }

  const operations = MODULE_LOOKUPS.map(([name, lookup]) => [
    name,
    (now: number, ...input: readonly unknown[]) =>
      run(lookup({ dialect: DIALECT, now: () => now }, ...input)),
  ]);
  return Object.fromEntries(operations) as OperationTable<LookupName>;
}

/** libsql returns the BLOBs of several rows as bare ArrayBuffers. */
export function withBytes(row: unknown): unknown {
  const values = row as Record<string, unknown>;
  for (const column in values) {
    const value = values[column];
    if (value instanceof ArrayBuffer) values[column] = new Uint8Array(value);
  }
  return values;
}

type AnyTable = RowKey["table"];
type AnyRow = Readonly<Record<string, SqlValue>>;

/** Rows of modules in one file. A step reads and writes them at once. */
export class SqliteRows implements Rows {
  readonly #database: Database;
  readonly #tables = new Map<AnyTable, TableStatements>();
  readonly #forgets = new Map<OldRows, Statement<unknown>>();
  /** Rows of small tables, until they may have changed. */
  readonly #small = new Map<AnyTable, readonly unknown[]>();

  constructor(database: Database) {
    this.#database = database;
  }

  find<Row>(table: AnyTable, key: object): Row | undefined {
    return this.#of(table).select.get(valuesOf(key as AnyRow, table.key)) as Row | undefined;
  }

  all<Row>(table: AnyTable): readonly Row[] {
    let rows = this.#small.get(table);
    if (rows === undefined) {
      rows = this.#of(table).all.all([]);
      this.#small.set(table, rows);
    }
    return rows as readonly Row[];
  }

  remove(table: AnyTable, key: object): void {
    this.#small.delete(table);
    this.#of(table).remove.run(valuesOf(key as AnyRow, table.key));
  }

  /** Forgets what was read: the batch is rolled back. */
  discard(): void {
    this.#small.clear();
  }

  put(table: AnyTable, row: object): void {
    this.#small.delete(table);
    this.#of(table).upsert.run(valuesOf(row as AnyRow, table.columns));
  }

  add(table: AnyTable, row: object): void {
    const { insert, added } = this.#of(table);
    insert.run(valuesOf(row as AnyRow, added));
  }

  forget(old: OldRows, before: number): void {
    let statement = this.#forgets.get(old);
    if (statement === undefined) {
      const { table, where, limit } = old;
      statement = this.#database.prepare(
        `DELETE FROM ${table} WHERE rowid IN (SELECT rowid FROM ${table} WHERE ${where({ schema: "" }, "?1")}${nobodyKeeps(table, "")} LIMIT ${limit})`,
      );
      this.#forgets.set(old, statement);
    }
    statement.run([before]);
  }

  #of(table: AnyTable): TableStatements {
    let statements = this.#tables.get(table);
    if (statements === undefined) {
      statements = statementsOf(this.#database, table);
      this.#tables.set(table, statements);
    }
    return statements;
  }
}

interface TableStatements {
  readonly select: Statement<unknown>;
  readonly all: Statement<unknown>;
  readonly remove: Statement<unknown>;
  readonly upsert: Statement<unknown>;
  /** Has no parameters for the columns of the key. */
  readonly insert: Statement<unknown>;
  readonly added: readonly string[];
}

function statementsOf(database: Database, table: AnyTable): TableStatements {
  const { name, key, columns } = table;
  const added = columns.filter((column) => !key.includes(column));
  const insert = (inserted: readonly string[]) =>
    `INSERT INTO ${name} (${inserted.join()}) VALUES (${inserted.map(() => "?").join()})`;
  const isRow = key.map((column) => `${column} = ?`).join(" AND ");
  return {
    select: database.prepare(`SELECT ${columns.join()} FROM ${name} WHERE ${isRow}`),
    all: database.prepare(`SELECT ${columns.join()} FROM ${name}`),
    remove: database.prepare(`DELETE FROM ${name} WHERE ${isRow}`),
    upsert: database.prepare(
      `${insert(columns)} ON CONFLICT (${key.join()}) DO UPDATE
         SET ${added.map((column) => `${column} = excluded.${column}`).join()}`,
    ),
    insert: database.prepare(`${insert(added)} ON CONFLICT DO NOTHING`),
    added,
  };
}

function valuesOf(row: AnyRow, columns: readonly string[]): SqlValue[] {
  return columns.map((column) => row[column] ?? null);
}
