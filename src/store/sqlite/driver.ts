import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

export type SqlValue = string | number | null | Uint8Array;
/** A prepared query; `T` is the type of its rows. */
export interface Statement<T> {
  run(parameters: readonly SqlValue[]): { changes: number; lastInsertRowid: number };
  get(parameters: readonly SqlValue[]): T | undefined;
  /** libsql 0.5.29 returns BLOBs as bare ArrayBuffers here, unlike `get`. */
  all(parameters: readonly SqlValue[]): T[];
}

/** The part of SQLite's interface that the store uses, the same for both drivers. It is synchronous, for a worker thread. */
export interface Database {
  /** Number of rows that {@link Statement.run} has changed. */
  readonly changes: number;
  exec(sql: string): void;
  prepare<T = unknown>(sql: string): Statement<T>;
  close(): void;
}

/**
 * Prepares a query that returns its rows as one JSON text, because drivers take ten times as long to make an object as
 * `JSON.parse`.
 * @param columns of the rows, which are numbers, texts and NULLs
 * @param from the query after its columns
 * @param json columns with JSON, which is parsed too
 */
export function prepareRows<T>(
  database: Database,
  columns: readonly (keyof T & string)[],
  from: string,
  json: readonly (keyof T & string)[] = [],
): (parameters: readonly SqlValue[]) => T[] {
  const fields = columns.map(
    (column) => `'${column}', ${json.includes(column) ? `json(${column})` : column}`,
  );
  const statement = database.prepare<{ rows: string }>(
    `SELECT json_group_array(json_object(${fields.join()})) AS rows FROM (SELECT ${columns.join()} ${from})`,
  );
  return (parameters) => JSON.parse(statement.get(parameters)?.rows ?? "[]") as T[];
}

/** Prepares an insert of a row. @param conflict `ON CONFLICT …` */
export function prepareInsert<Row extends Readonly<Record<Column, SqlValue>>, Column extends string>(
  database: Database,
  table: string,
  columns: readonly Column[],
  conflict = "",
): (row: Row) => void {
  const insert = database.prepare(
    `INSERT INTO ${table} (${columns.join()}) VALUES (${columns.map(() => "?").join()}) ${conflict}`,
  );
  return (row) => void insert.run(columns.map((column) => row[column]));
}

interface NativeStatement {
  run(...parameters: unknown[]): { changes: number; lastInsertRowid: number };
  get(...parameters: unknown[]): unknown;
  all(...parameters: unknown[]): unknown[];
}

interface NativeDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): NativeStatement;
  close(): unknown;
}

type NativeDatabaseClass = new (path: string) => NativeDatabase;

const require = createRequire(import.meta.url);

/** Opens node:sqlite if Node offers it without a flag and a warning, and libsql on older versions. */
export function openDriver(path: string): Database {
  const builtIn = Number(process.versions.node.split(".")[0]) >= 24;
  return builtIn ? openNodeSqlite(path) : openLibsql(path);
}

/** `immutable=1` ignores locks, and is for a file that does not change. */
export type ReadMode = "mode=ro" | "immutable=1";

/** Opens an existing file only for reading. Closing the file neither copies its log nor deletes it. */
export const openToRead = (path: string, mode: ReadMode): Database =>
  openDriver(`${pathToFileURL(path).href}?${mode}`);

/** Opens a file, and does not create it if it is missing. */
export const openExisting = (path: string): Database => openDriver(`${pathToFileURL(path).href}?mode=rw`);

function openNodeSqlite(path: string): Database {
  const { DatabaseSync } = require("node:sqlite") as { DatabaseSync: NativeDatabaseClass };
  return adapt(new DatabaseSync(path), (parameters) => [...parameters]);
}

function openLibsql(path: string): Database {
  const Libsql = require("libsql") as NativeDatabaseClass;
  // The parameters are passed as one array, because libsql would read a single Buffer as named parameters, which crashes the
  // process.
  return adapt(new Libsql(path), (parameters) => [parameters]);
}

/**
 * Matches half of a character that JSON.stringify has escaped. Does not match a backslash that precedes such letters.
 */
const HALF_CHARACTER = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;

/**
 * Returns the JSON of values from which SQLite makes text. Half a character becomes the replacement character, as in a
 * text that the drivers bind, because libsql ends the process when it reads back half a character.
 */
export function jsonOfTexts(values: readonly unknown[]): string {
  const json = JSON.stringify(values);
  return json.includes("\\ud") ? json.replace(HALF_CHARACTER, "$1\uFFFD") : json;
}

function adapt(
  native: NativeDatabase,
  toArguments: (parameters: readonly SqlValue[]) => unknown[],
): Database {
  let changes = 0;
  return {
    get changes() {
      return changes;
    },
    exec: (sql) => void native.exec(sql),
    prepare<T>(sql: string): Statement<T> {
      // The query is prepared at its first use, because preparing all queries of the store takes longer than the rest of its
      // start.
      let prepared: NativeStatement | undefined;
      const statement = () => {
        prepared ??= native.prepare(sql);
        return prepared;
      };
      return {
        run(parameters) {
          const result = statement().run(...toArguments(parameters));
          changes += result.changes;
          return result;
        },
        get: (parameters) => statement().get(...toArguments(parameters)) as T | undefined,
        all: (parameters) => statement().all(...toArguments(parameters)) as T[],
      };
    },
    close: () => void native.close(),
  };
}
