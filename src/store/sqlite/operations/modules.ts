import type { ListDialect, Lookup } from "../../list-dialect.ts";
import type { Commit } from "../../module.ts";
import {
  type LookupName,
  MODULE_LOOKUPS,
  MODULE_STEPS,
  ORDERING,
  type StepName,
} from "../../modules/modules.ts";
import { nobodyKeeps } from "../../part-modules.ts";
import { added, type OldRows, type RowKey, type Rows, type SqlValue } from "../../rows.ts";
import { type Database, jsonOfTexts, prepareRows, type Statement } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";

/** Digits of the lower part of an amount. Amounts can reach 2^64 - 1, but SQLite's sums are limited to 2^63 - 1. */
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
  among: (column, selected) => `${column} IN (${selected})`,
  ofEach: (table, selected) =>
    `CROSS JOIN ${table} ON ${table}.rowid IN (SELECT rowid FROM ${table} WHERE ${selected})`,
  // Sums are computed in two parts, because SQLite's numbers are limited to 2^63 - 1.
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

/** Operations of modules that only read. A lookup is one transaction, so it sees one state of the database. */
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

/** A row in the database, and the row after the changes of steps and reactions; undefined for a missing row. */
interface LoadedRow {
  readonly before: AnyRow | undefined;
  now: AnyRow | undefined;
}

/** Rows of modules in an SQLite file. A step reads and writes them immediately. */
export class SqliteRows implements Rows {
  readonly #database: Database;
  readonly #tables = new Map<AnyTable, TableStatements>();
  readonly #forgets = new Map<OldRows, Statement<unknown>>();
  /** Rows of small tables, until they may have changed. */
  readonly #small = new Map<AnyTable, readonly unknown[]>();
  /** Numbers that {@link count} adds to rows at the end of the batch, by the JSON of the rows' keys. */
  readonly #counts = new Map<AnyTable, Map<string, AnyRow>>();
  /** Rows that were read together, by the JSON of their keys. */
  readonly #loaded = new Map<AnyTable, Map<string, LoadedRow>>();

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Reads rows together, and caches them and their changes until {@link unload}. Until then, only steps and reactions may
   * change them. Finding and writing one row after the other takes ten times as long.
   */
  load(keys: readonly RowKey[]): void {
    for (const [table, own] of byTable(keys)) {
      const [column = "", ...more] = table.key;
      if (more.length > 0) continue;
      const loaded = new Map<string, LoadedRow>();
      const asked: (SqlValue | undefined)[] = [];
      for (const key of own) {
        const text = keyText(table, key);
        if (loaded.has(text)) continue;
        loaded.set(text, { before: undefined, now: undefined });
        asked.push(key[column]);
      }
      for (const row of this.#of(table).selectAll([JSON.stringify(asked)]))
        loaded.set(keyText(table, row), { before: row, now: row });
      this.#loaded.set(table, loaded);
    }
  }

  /** Reads together the rows that decide about keys of ordered JobCalls. */
  loadKeys(orderKeys: readonly string[]): void {
    if (orderKeys.length > 0) this.load(orderKeys.flatMap((orderKey) => ORDERING?.row(orderKey) ?? []));
  }

  /** Writes the changes of the rows that were read together. */
  unload(): void {
    for (const [table, loaded] of this.#loaded) this.#writeChanges(table, [...loaded.values()]);
    this.#loaded.clear();
  }

  #writeChanges(table: AnyTable, rows: readonly LoadedRow[]): void {
    const [column = ""] = table.key;
    const added: SqlValue[][] = [];
    const removed: (SqlValue | undefined)[] = [];
    for (const { before, now } of rows) {
      if (before !== undefined && now !== undefined) this.#change(table, before, now);
      else if (now !== undefined) added.push(valuesOf(now, table.columns));
      else if (before !== undefined) removed.push(before[column]);
    }
    const { removeAll, insertAll } = this.#of(table);
    if (removed.length > 0) removeAll.run([JSON.stringify(removed)]);
    if (added.length > 0) insertAll.run([jsonOfTexts(added)]);
  }

  find<Row>(table: AnyTable, key: object): Row | undefined {
    const loaded = this.#loadedRow(table, key);
    if (loaded !== undefined) return loaded.now as Row | undefined;
    return this.#of(table).select.get(valuesOf(key as AnyRow, table.key)) as Row | undefined;
  }

  all<Row>(table: AnyTable): readonly Row[] {
    let rows = this.#small.get(table);
    if (rows === undefined) {
      if (this.#loaded.has(table)) this.unload();
      rows = this.#of(table).all.all([]);
      this.#small.set(table, rows);
    }
    return rows as readonly Row[];
  }

  remove(table: AnyTable, key: object): void {
    this.#small.delete(table);
    const loaded = this.#loadedRow(table, key);
    if (loaded !== undefined) loaded.now = undefined;
    else this.#of(table).remove.run(valuesOf(key as AnyRow, table.key));
  }

  /** Discards the rows that were read, because the batch is rolled back. */
  discard(): void {
    this.#small.clear();
    this.#counts.clear();
    this.#loaded.clear();
  }

  #loadedRow(table: AnyTable, row: object): LoadedRow | undefined {
    const loaded = this.#loaded.get(table);
    return loaded?.get(keyText(table, row as AnyRow));
  }

  put(table: AnyTable, row: object): void {
    this.#small.delete(table);
    const loaded = this.#loadedRow(table, row);
    if (loaded !== undefined) loaded.now = row as AnyRow;
    else this.#of(table).upsert.run(valuesOf(row as AnyRow, table.columns));
  }

  /** Writes the columns that changed, because SQLite rewrites an index if any of its columns is written. */
  #change(table: AnyTable, before: AnyRow, row: AnyRow): void {
    const changed = table.columns.filter((column: string) => before[column] !== row[column]);
    if (changed.length === 0) return;
    const { updates } = this.#of(table);
    const names = changed.join();
    let update = updates.get(names);
    if (update === undefined) {
      const set = changed.map((column: string) => `${column} = ?`).join();
      update = this.#database.prepare(`UPDATE ${table.name} SET ${set} WHERE ${isRow(table)}`);
      updates.set(names, update);
    }
    update.run([...valuesOf(row, changed), ...valuesOf(row, table.key)]);
  }

  add(table: AnyTable, row: object): void {
    const { insert, added } = this.#of(table);
    insert.run(valuesOf(row as AnyRow, added));
  }

  count(table: AnyTable, by: object): void {
    const counts = this.#counts.get(table) ?? new Map<string, AnyRow>();
    this.#counts.set(table, counts);
    const text = keyText(table, by as AnyRow);
    counts.set(text, added(table, counts.get(text), by as AnyRow));
  }

  /** Writes the collected counts. */
  writeCounts(): void {
    for (const [table, counts] of this.#counts)
      for (const by of counts.values()) this.put(table, added(table, this.find(table, by), by));
    this.#counts.clear();
  }

  forget(old: OldRows, before: number): void {
    this.unload();
    let statement = this.#forgets.get(old);
    if (statement === undefined) {
      const { table, where, limit } = old;
      statement = this.#database.prepare(
        `DELETE FROM ${table} WHERE rowid IN (SELECT rowid FROM ${table} WHERE ${where({ schema: "" }, "?1", String(limit))}${nobodyKeeps(table, "")} LIMIT ${limit})`,
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
  /** Reads many rows of a table whose key has one column. */
  readonly selectAll: (parameters: readonly [json: string]) => AnyRow[];
  /** Statements by the columns that they write. */
  readonly updates: Map<string, Statement<unknown>>;
  readonly all: Statement<unknown>;
  readonly remove: Statement<unknown>;
  /** Deletes many rows of a table that has one column in its key. */
  readonly removeAll: Statement<unknown>;
  /** Inserts many rows whose keys the table does not have. */
  readonly insertAll: Statement<unknown>;
  readonly upsert: Statement<unknown>;
  /** Insert statement without parameters for the columns of the key. */
  readonly insert: Statement<unknown>;
  readonly added: readonly string[];
}

function statementsOf(database: Database, table: AnyTable): TableStatements {
  const { name, key, columns } = table;
  const added = columns.filter((column) => !key.includes(column));
  const insert = (inserted: readonly string[]) =>
    `INSERT INTO ${name} (${inserted.join()}) VALUES (${inserted.map(() => "?").join()})`;
  return {
    select: database.prepare(`SELECT ${columns.join()} FROM ${name} WHERE ${isRow(table)}`),
    selectAll: prepareRows<AnyRow>(
      database,
      columns,
      `FROM ${name} WHERE ${key[0]} IN (SELECT value FROM json_each(?))`,
    ),
    updates: new Map(),
    all: database.prepare(`SELECT ${columns.join()} FROM ${name}`),
    remove: database.prepare(`DELETE FROM ${name} WHERE ${isRow(table)}`),
    removeAll: database.prepare(`DELETE FROM ${name} WHERE ${key[0]} IN (SELECT value FROM json_each(?))`),
    insertAll: database.prepare(
      `INSERT INTO ${name} (${columns.join()})
       SELECT ${columns.map((_, place) => `value ->> ${place}`).join()} FROM json_each(?)`,
    ),
    upsert: database.prepare(
      `${insert(columns)} ON CONFLICT (${key.join()}) DO UPDATE
         SET ${added.map((column) => `${column} = excluded.${column}`).join()}`,
    ),
    insert: database.prepare(`${insert(added)} ON CONFLICT DO NOTHING`),
    added,
  };
}

function isRow({ key }: AnyTable): string {
  return key.map((column) => `${column} = ?`).join(" AND ");
}

function keyText({ key }: AnyTable, row: AnyRow): string {
  const [column = "", ...more] = key;
  return more.length === 0 ? String(row[column]) : JSON.stringify(valuesOf(row, key));
}

function byTable(keys: readonly RowKey[]): Map<AnyTable, AnyRow[]> {
  const tables = new Map<AnyTable, AnyRow[]>();
  for (const { table, key } of keys) {
    const own = tables.get(table);
    if (own === undefined) tables.set(table, [key]);
    else own.push(key);
  }
  return tables;
}

function valuesOf(row: AnyRow, columns: readonly string[]): SqlValue[] {
  return columns.map((column) => row[column] ?? null);
}
