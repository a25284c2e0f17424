import { accessSync, closeSync, constants, existsSync, openSync, readSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { missingTables, refuseIncompleteParts, refuseOtherParts, rowsOfOtherParts } from "../part-modules.ts";
import { missingMigrations, newestVersion, refuseNewer, refuseUnreleased } from "../schema-version.ts";
import { FILE_VERSIONS_OFFSET } from "./database-header.ts";
import { type Database, openDriver, openExisting } from "./driver.ts";
import { MIGRATIONS, SCHEMA } from "./schema/migrations.ts";

/** Pages (of 4 KiB) of the write-ahead log at which a commit itself checkpoints: 32 MiB. */
export const AUTOCHECKPOINT_PAGES = 8192;

/** Bytes to which the log file is truncated once it was fully checkpointed. */
export const LOG_SIZE_LIMIT = 64 * 1024 * 1024;

/** Time for which a query waits for other connections. */
export const BUSY_MS = 5000;

/** Settings that every open makes and reads back, because drivers and builds start with different settings. */
const PRAGMAS = [
  { name: "journal_mode", value: "wal" },
  // 2 is FULL: each commit is on the disk before it is reported.
  { name: "synchronous", value: 2 },
  { name: "wal_autocheckpoint", value: AUTOCHECKPOINT_PAGES },
  { name: "journal_size_limit", value: LOG_SIZE_LIMIT },
  // Bytes of deleted data do not stay in free pages. The syncs of a commit take far longer than the overwriting.
  { name: "secure_delete", value: 1 },
  // The size is in KiB, for each connection. A larger cache saves no time, because the system also caches the file's pages.
  { name: "cache_size", value: -4 * 1024 },
] as const;

/**
 * Opens the database for durable writes, and makes or checks its tables.
 * @param options `isNew` false refuses a database without tables instead of making them
 * @throws Error when the file cannot be opened, belongs to another version of jobgate, or does not accept a setting
 */
export function openDatabase(path: string, { isNew }: { isNew: boolean }): Database {
  const database = openFile(path, isNew ? openDriver : openExisting);
  try {
    setPragma(database, "busy_timeout", BUSY_MS);
    // The check comes before any write, because the settings below are stored in the file.
    const version = Number(readPragma(database, "user_version"));
    refuseNewer(MIGRATIONS, version);
    refuseOthers(database, version);
    // The setting has an effect only before the first table is created.
    if (isNew && readPragma(database, "page_count") === 0) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
    for (const { name, value } of PRAGMAS) setPragma(database, name, value);
    migrate(database, isNew);
    return database;
  } catch (cause) {
    database.close();
    throw new Error(`${path}: ${reasonOf(cause)}`, { cause });
  }
}

/** Returns true if a file is a copy that SQLite made and that was not opened for writing yet, so that it has no log. */
export function isCopy(path: string): boolean {
  if (bytesOf(path) === 0) return false;
  const header = Buffer.alloc(FILE_VERSIONS_OFFSET + 1);
  const file = openSync(path, "r");
  readSync(file, header, 0, header.byteLength, 0);
  closeSync(file);
  return header[FILE_VERSIONS_OFFSET] === 1;
}

const bytesOf = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

/**
 * Returns true if the log beside a database belongs to another file, which had the name before. SQLite would apply that log
 * to the database and corrupt it.
 */
export function hasForeignLog(path: string): boolean {
  return bytesOf(`${path}-wal`) > 0 && isCopy(path);
}

/** Removes the log of a file that a restored copy has replaced. Only the database's owner may call this. */
export function removeForeignLog(path: string): void {
  if (hasForeignLog(path)) removeLog(path);
}

/** Removes a log. Only the database's owner may call this. */
export function removeLog(path: string): void {
  for (const name of [`${path}-wal`, `${path}-shm`]) rmSync(name, { force: true });
}

/** @throws Error that names the file */
export function openFile(path: string, open = openDriver): Database {
  try {
    return open(path);
  } catch (cause) {
    throw new Error(`${path} cannot be opened: ${obstacleAt(path) ?? reasonOf(cause)}`, { cause });
  }
}

/** Returns true if no database was served at a path yet: its file is missing or empty, and there is no owner file. */
export function isNewFile(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  const isEmpty = found === undefined || (found.isFile() && found.size === 0);
  return isEmpty && !existsSync(`${path}-owner`);
}

/** Returns the reason why no file can be opened at a path, because the drivers do not say it. */
export function obstacleAt(path: string): string | undefined {
  const folder = dirname(path);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return `there is no folder ${folder}`;
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return "it is a folder";
  try {
    accessSync(folder, constants.W_OK);
    return undefined;
  } catch {
    return `the folder ${folder} cannot be written to`;
  }
}

export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

function setPragma(database: Database, name: string, value: string | number): void {
  database.prepare(`PRAGMA ${name} = ${value}`).all([]);
  const actual = readPragma(database, name);
  if (actual !== value) throw new Error(`SQLite keeps ${name} at ${String(actual)}; ${value} is needed`);
}

export function readPragma(database: Database, name: string): unknown {
  const row = database.prepare<Record<string, unknown>>(`PRAGMA ${name}`).get([]);
  // The column is called like the pragma, except for busy_timeout.
  return row === undefined ? undefined : Object.values(row)[0];
}

/** @throws Error for a database of another program, of an unreleased jobgate, or with rows of parts that this build lacks */
export function refuseOthers(database: Database, version: number): void {
  const tables = tablesOf(database);
  const isForeign = version === 0 ? tables.length > 0 : !tables.includes("job_calls");
  if (isForeign) throw new Error("this is the database of another program");
  refuseUnreleased(version);
  refuseIncompleteParts(tables, version, MIGRATIONS, SCHEMA);
  const others = rowsOfOtherParts(tables, version, MIGRATIONS, SCHEMA);
  if (others !== undefined) refuseOtherParts(database.prepare<{ name: string }>(others).all([]));
}

function migrate(database: Database, isNew: boolean): void {
  database.exec("BEGIN IMMEDIATE");
  const version = Number(readPragma(database, "user_version"));
  if (version === 0 && !isNew) throw new Error("the database had data and is empty now: restore a backup");
  const missing = [
    ...missingMigrations(MIGRATIONS, version),
    ...missingTables(new Set(tablesOf(database)), SCHEMA),
  ];
  // Nothing is written to a database that is up to date, because on a full disk it must still open for reading.
  if (missing.length > 0) {
    for (const migration of missing) database.exec(migration);
    database.exec(`PRAGMA user_version = ${newestVersion(MIGRATIONS)}`);
  }
  database.exec("COMMIT");
}

function tablesOf(database: Database): string[] {
  return database
    .prepare<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    )
    .all([])
    .map(({ name }) => name);
}
