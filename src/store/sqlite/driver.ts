import { createRequire } from "node:module";

export type SqlValue = string | number | null | Uint8Array;
/** Column values by name; `T` is what the query's author knows about them. */
export interface Statement<T> {
  run(parameters: readonly SqlValue[]): { changes: number; lastInsertRowid: number };
  get(parameters: readonly SqlValue[]): T | undefined;
  /** Not for BLOB columns: here libsql 0.5.29 gives a bare ArrayBuffer, other than from `get`. */
  all(parameters: readonly SqlValue[]): T[];
}

/** The little of SQLite that the store needs, alike in both drivers. Synchronous: for a worker thread. */
export interface Database {
  exec(sql: string): void;
  prepare<T = unknown>(sql: string): Statement<T>;
  close(): void;
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

/** node:sqlite, where Node brings it without a flag and a warning; libsql on older versions. */
export function openDriver(path: string): Database {
  const builtIn = Number(process.versions.node.split(".")[0]) >= 24;
  return builtIn ? openNodeSqlite(path) : openLibsql(path);
}

function openNodeSqlite(path: string): Database {
  const { DatabaseSync } = require("node:sqlite") as { DatabaseSync: NativeDatabaseClass };
  return adapt(new DatabaseSync(path), (parameters) => [...parameters]);
}

function openLibsql(path: string): Database {
  const Libsql = require("libsql") as NativeDatabaseClass;
  // As one array: a lone Buffer would be read as named parameters, which ends the process.
  return adapt(new Libsql(path), (parameters) => [parameters]);
}

function adapt(
  native: NativeDatabase,
  toArguments: (parameters: readonly SqlValue[]) => unknown[],
): Database {
  return {
    exec: (sql) => void native.exec(sql),
    prepare<T>(sql: string): Statement<T> {
      const statement = native.prepare(sql);
      return {
        run: (parameters) => statement.run(...toArguments(parameters)),
        get: (parameters) => statement.get(...toArguments(parameters)) as T | undefined,
        all: (parameters) => statement.all(...toArguments(parameters)) as T[],
      };
    },
    close: () => void native.close(),
  };
}
