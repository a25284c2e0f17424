import { nobodyKeeps } from "../../part-modules.ts";
import type { OldRows, RowKey, Rows, SqlValue } from "../../rows.ts";
import type { Database, Statement } from "../driver.ts";

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
