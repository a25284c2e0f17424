import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import type { Finding, StoredRows, StoreInfo, StoreInspection } from "../contract/inspection.ts";
import { countRows, findProblems, problemTexts, toStoredRows } from "../inspection-queries.ts";
import { PART_MODULES } from "../part-modules.ts";
import { newestVersion, requireNewest } from "../schema-version.ts";
import { type Database, openToRead } from "./driver.ts";
import { requireServedFile } from "./file-owner.ts";
import { obstacleAt, openFile, reasonOf, refuseOthers } from "./open-database.ts";
import { MIGRATIONS } from "./schema/migrations.ts";
import { requireSoundFiles } from "./sound-files.ts";

/** Number of problems of the file that are listed. */
const MAX_FILE_PROBLEMS = 20;
/**
 * Number of call IDs that a copy skips, so that a store restored from it does not reuse IDs that were given out after the
 * copy.
 */
const SKIPPED_CALL_IDS = 1_000_000_000;

/**
 * Opens a store only for reading. A connection that may write would copy the log into the file and delete the log when
 * the connection is closed. If the file was moved, a running jobgate may still use both.
 * @throws Error when there is no such store, or it cannot be read while jobgate runs
 */
export function inspectSqlite(path: string): StoreInspection {
  requireDatabase(path);
  requireServedFile(path);
  return openInspection(path);
}

/**
 * Checks that a file which replaced the served file matches the log beside it.
 * @throws Error when the log belongs to another file
 */
export async function requireFittingLog(path: string): Promise<void> {
  if ((statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0) return;
  const inspection = openInspection(path);
  try {
    if (!inspection.isKnown) return;
    const [problem] = await inspection.check().catch((error) => [reasonOf(error)]);
    if (problem === undefined) return;
    throw new Error(
      `${path} is not the file that was served, and does not fit ${path}-wal (${problem}): put that file back, or restore a backup`,
    );
  } finally {
    await inspection.close();
  }
}

/** @throws Error that describes what the path is instead of a database */
function requireDatabase(path: string): void {
  const found = readingFile(path, () => statSync(path, { throwIfNoEntry: false }));
  if (found === undefined) throw new Error(`there is no store at ${path}`);
  if (found.isFile() && found.size === 0) throw new Error(`there is no store at ${path}: the file is empty`);
  if (found.isDirectory()) throw new Error(`${path} is a folder; expected the file of a store`);
  if (!found.isFile()) throw new Error(`${path} is not a regular file; expected the file of a store`);
  const file = readingFile(path, () => openSync(path, "r"));
  const start = Buffer.alloc(MAGIC.length);
  readSync(file, start, 0, MAGIC.length, 0);
  closeSync(file);
  if (start.toString("latin1") !== MAGIC) throw new Error(`${path} is not an SQLite database`);
}

function readingFile<Found>(path: string, read: () => Found): Found {
  try {
    return read();
  } catch (cause) {
    throw new Error(`${path} cannot be read: ${reasonOf(cause)}`, { cause });
  }
}

/** Beginning of each SQLite database. */
const MAGIC = "SQLite format 3\0";

function openInspection(path: string): StoreInspection & { readonly isKnown: boolean } {
  // The files are checked before the database is opened, because opening it drops everything behind a damaged frame.
  requireSoundFiles(path);
  const database = openToRead(path, "mode=ro");
  database.prepare("PRAGMA busy_timeout = 5000").all([]);
  const read = (pragma: string) =>
    Number(Object.values(database.prepare<Record<string, unknown>>(`PRAGMA ${pragma}`).get([]) ?? {})[0]);
  const schemaVersion = read("user_version");
  const isKnown = schemaVersion === newestVersion(MIGRATIONS);
  try {
    refuseOthers(database, schemaVersion);
  } catch (cause) {
    database.close();
    throw new Error(`${path}: ${reasonOf(cause)}`, { cause });
  }
  const requireKnown = () => requireNewest(MIGRATIONS, schemaVersion, path);

  function info(): StoreInfo {
    const bytes = read("page_count") * read("page_size");
    const about = { kind: "SQLite", place: path, bytes, schemaVersion } as const;
    if (!isKnown) return about;
    return { ...about, rows: toStoredRows(database.prepare<StoredRows>(countRows("")).all([])) };
  }

  return {
    isKnown,
    info: async () => info(),
    async check() {
      const broken = database
        .prepare<{ integrity_check: string }>(`PRAGMA integrity_check(${MAX_FILE_PROBLEMS})`)
        .all([])
        .flatMap(({ integrity_check: text }) => (text === "ok" ? [] : text));
      if (broken.length > 0) return broken;
      requireKnown();
      return problemTexts(database.prepare<Finding>(findProblems("")).all([]));
    },
    async read<Row>(sql: (schema: string) => string) {
      requireKnown();
      return database.prepare<Row>(sql("")).all([]);
    },
    async backup(file) {
      if (existsSync(file)) throw new Error(`${file} exists: expected the name of a new file`);
      requireKnown();
      const partial = `${file}.partial`;
      rmSync(partial, { force: true });
      try {
        database.prepare("VACUUM INTO ?").run([partial]);
        chmodSync(partial, statSync(path).mode);
        completeCopy(partial);
        sync(partial);
        renameSync(partial, file);
        sync(dirname(file));
      } catch (cause) {
        throw new Error(`${file} cannot be written: ${obstacleAt(partial) ?? reasonOf(cause)}`, { cause });
      } finally {
        rmSync(partial, { force: true });
      }
    },
    close: async () => database.close(),
  };
}

/** SQL that completes a copy of the store. */
const COMPLETE_COPY = [
  `UPDATE sqlite_sequence SET seq = seq + ${SKIPPED_CALL_IDS} WHERE name = 'job_calls';`,
  ...PART_MODULES.flatMap(({ afterCopy = [] }) => afterCopy),
].join("\n");

function completeCopy(path: string): void {
  const copy: Database = openFile(path);
  try {
    copy.exec(COMPLETE_COPY);
  } finally {
    copy.close();
  }
}

/** Syncs a file or folder to the disk. */
function sync(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
