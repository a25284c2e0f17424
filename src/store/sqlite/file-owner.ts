import { existsSync, readlinkSync, realpathSync, renameSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { StoreInUseError } from "../store.ts";
import { isOlderThanLog } from "./database-header.ts";
import { type Database, openToRead, type ReadMode } from "./driver.ts";
import { identityOf, requireOneName } from "./file-identity.ts";
import { hasForeignLog, isCopy, openFile, reasonOf, removeForeignLog, removeLog } from "./open-database.ts";
import type { TruncatedLog } from "./watched-files.ts";

/** `application_id` of an owner file once the database beside it has tables: "jobg" in ASCII. */
const DATABASE_WAS_MADE = 0x6a_6f_62_67;

/**
 * Number of call IDs that are reserved at once. If a process is killed, its reserved IDs that it has not given out stay
 * unused.
 */
const RESERVED_CALL_IDS = 100_000;
/** Longest time for which a reader of the owner file holds it. */
const BUSY_TIMEOUT_MS = 250;

const RECORD = `
CREATE TABLE IF NOT EXISTS record (
  id               INTEGER PRIMARY KEY CHECK (id = 1),
  device           TEXT,
  inode            TEXT,
  reserved_call_id INTEGER NOT NULL DEFAULT 0,
  truncated_log    TEXT
) STRICT;
INSERT OR IGNORE INTO record (id) VALUES (1);
`;

/** Contents of the owner file. */
interface OwnerRecord {
  /** File that was served last. */
  readonly device: string | null;
  readonly inode: string | null;
  /** Upper bound of the call IDs that were given out. */
  readonly reserved_call_id: number;
  readonly truncated_log: TruncatedLog | null;
}

/** Paths of the owner files that this process holds, over all copies of this module. */
const heldHere = sharedSet(Symbol.for("jobgate.ownerFiles"));

/**
 * Ownership of a database file by one store, in the form of SQLite's exclusive lock on the file `PATH-owner`, because Node
 * has no file lock that the system releases when a process dies. Readers and backups can still open the database itself.
 *
 * The owner file keeps the owner's pid as its `user_version`, and outlives a deleted database, so that the next start does
 * not silently begin with an empty database. It also records which file is served, and the highest call ID that was given
 * out, in case a start finds an older copy of the database.
 */
export class FileOwner {
  /** The database, its log and the owner file, without symbolic links. */
  readonly files: readonly [database: string, log: string, owner: string];
  readonly #lock: Database;
  /** Contents that the last owner left. */
  readonly #record: OwnerRecord | undefined;
  #reservedCallId: number;

  /**
   * Takes ownership.
   * @throws StoreInUseError when another store has ownership
   * @throws Error when the database is gone, has lost its log or has another name, or its folder cannot be written to
   */
  static take(path: string): FileOwner {
    const databasePath = realPathOf(path);
    const ownerPath = `${databasePath}-owner`;
    // Opening and closing the file here, even only to read it, would release the lock, because POSIX locks belong to the
    // process.
    if (heldHere.has(ownerPath)) throw inUse(path, process.pid);
    const lock = openFile(ownerPath);
    let owner: FileOwner;
    try {
      lock.prepare(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`).all([]);
      // The pragma keeps the lock after a commit.
      lock.prepare("PRAGMA locking_mode = EXCLUSIVE").all([]);
      lock.exec(`BEGIN EXCLUSIVE; PRAGMA user_version = ${process.pid}; ${RECORD} COMMIT`);
      const record = lock.prepare<OwnerRecord>("SELECT * FROM record").get([]);
      owner = new FileOwner([databasePath, `${databasePath}-wal`, ownerPath], lock, record);
    } catch (cause) {
      lock.close();
      if (isBusy(cause)) throw inUse(path, pidIn(ownerPath), cause);
      throw new Error(`${ownerPath} cannot be written: ${reasonOf(cause)}`, { cause });
    }
    heldHere.add(ownerPath);
    try {
      owner.#prepareFiles(path);
    } catch (error) {
      owner.release();
      throw error;
    }
    return owner;
  }

  private constructor(files: FileOwner["files"], lock: Database, record: OwnerRecord | undefined) {
    this.files = files;
    this.#lock = lock;
    this.#record = record;
    this.#reservedCallId = this.lastCallId;
  }

  /** True if the database is not the file that the last owner served, because it was restored, copied or moved here. */
  get isReplaced(): boolean {
    const inode = this.#record?.inode ?? undefined;
    return inode !== undefined && inode !== identityOf(this.files[0])?.inode;
  }

  /** Upper bound of the call IDs that the last owner gave out. */
  get lastCallId(): number {
    return this.#record?.reserved_call_id ?? 0;
  }

  /** True if the database beside the owner file once had tables. */
  get wasMade(): boolean {
    const row = this.#lock.prepare<{ application_id: number }>("PRAGMA application_id").get([]);
    return row?.application_id === DATABASE_WAS_MADE;
  }

  /** Records that the database is served and has tables now. */
  recordDatabase(): void {
    const { device, inode } = identityOf(this.files[0]) ?? {};
    const isRecorded = this.#lock.prepare(
      "SELECT 1 FROM record WHERE device = ? AND inode = ? AND truncated_log IS NULL",
    );
    if (device === undefined || inode === undefined) return;
    if (this.wasMade && isRecorded.get([device, inode]) !== undefined) return;
    this.#write(`
      PRAGMA application_id = ${DATABASE_WAS_MADE};
      UPDATE record SET device = '${device}', inode = '${inode}', truncated_log = NULL`);
  }

  /** Ensures that no later start gives out call IDs up to this one. Writes once for many IDs. */
  reserve(callId: number): void {
    if (callId <= this.#reservedCallId) return;
    this.#setReserved(callId + RESERVED_CALL_IDS);
  }

  /** Records the consequence of a truncated log for the next start. */
  recordTruncatedLog(log: TruncatedLog): void {
    this.#write(`UPDATE record SET truncated_log = '${log}'`);
  }

  /**
   * Closes a database whose files were lost, without changing its file or its log. SQLite would otherwise copy the log into
   * the file when the last connection is closed, unless the file was moved.
   */
  async closeAsItIs(close: () => Promise<unknown>): Promise<void> {
    const [database] = this.files;
    const aside = `${database}-closing`;
    const isThere = existsSync(database);
    if (isThere) renameSync(database, aside);
    try {
      await close();
    } finally {
      if (isThere && !existsSync(database)) renameSync(aside, database);
    }
  }

  /**
   * Releases ownership. The owner file stays.
   * @param lastCallId highest call ID that was given out; undefined if it is not known
   */
  release(lastCallId?: number): void {
    if (!heldHere.delete(this.files[2])) return;
    try {
      if (lastCallId !== undefined && lastCallId !== this.#reservedCallId) this.#setReserved(lastCallId);
    } catch {
      // The disk is full, so the next start skips the reserved IDs.
    }
    // libsql keeps a closed connection, and its locks, until its statements are collected.
    this.#lock.exec("PRAGMA locking_mode = NORMAL; SELECT count(*) FROM record");
    this.#lock.close();
  }

  /** @throws Error when the database must not be opened in its present state */
  #prepareFiles(path: string): void {
    const [database] = this.files;
    requireOneName(path, this.#record?.inode ?? undefined);
    // The database contains the whole log, and applying a part of the log would take the database back to an earlier state.
    if (this.#record?.truncated_log === "copied") removeLog(database);
    else removeForeignLog(database);
    const loss = lossOf(path, database, this.#record);
    if (loss !== undefined) throw new Error(loss);
    if (isOlderThanLog(database)) throw new Error(olderCopy(path));
    const size = statSync(database, { throwIfNoEntry: false })?.size ?? 0;
    if (size === 0 && this.wasMade) throw new Error(missingDatabase(path));
  }

  #setReserved(callId: number): void {
    this.#write(`UPDATE record SET reserved_call_id = ${callId}`);
    this.#reservedCallId = callId;
  }

  #write(change: string): void {
    this.#lock.exec("BEGIN EXCLUSIVE");
    try {
      this.#lock.exec(`${change}; COMMIT`);
    } catch (error) {
      this.#lock.exec("ROLLBACK");
      throw error;
    }
  }
}

/**
 * Describes what a database lost while it was served; undefined once its log is deleted or a copy replaces the database.
 * @param pid process that still serves it
 */
function lossOf(path: string, database: string, record?: OwnerRecord, pid?: number): string | undefined {
  const log = `${database}-wal`;
  if (record?.truncated_log !== "lost" || !existsSync(log) || isCopy(database)) return undefined;
  const advice =
    pid === undefined
      ? `restore a backup, or delete ${log} to start with what ${path} has`
      : `process ${pid} accepts no more jobs. Stop that process, then restore a backup`;
  return `${log} was truncated while ${path} was in use, and changes are lost: ${advice}`;
}

/**
 * Refuses to read a file that lost changes, or that a running jobgate does not serve under its name, because the log beside
 * it then belongs to another file.
 * @throws Error with the pid of the running jobgate
 */
export function requireServedFile(path: string): void {
  const databasePath = realPathOf(path);
  const ownerPath = `${databasePath}-owner`;
  const record = existsSync(ownerPath) ? recordIn(ownerPath) : undefined;
  if (!isCopy(databasePath)) requireOneName(path, record?.inode ?? undefined);
  const isServed = record !== undefined && record.inode !== null && isHeld(ownerPath);
  const pid = isServed ? pidIn(ownerPath) : undefined;
  const loss = lossOf(path, databasePath, record, pid);
  if (loss !== undefined) throw new Error(loss);
  const found = identityOf(databasePath);
  if (isServed && (found?.inode !== record.inode || found.device !== record.device)) {
    throw new Error(
      `${path} is not the file that process ${pid} serves under this name: it was moved or replaced, and ${path}-wal has acknowledged jobs. Stop that process, put its file back if you have it, and start jobgate again`,
    );
  }
  const isOlder = isOlderThanLog(databasePath);
  if (isOlder && !isServed) throw new Error(olderCopy(path));
  if (!isOlder && !hasForeignLog(databasePath)) return;
  throw new Error(
    isServed
      ? `${path} was overwritten while process ${pid} serves it, and ${path}-wal has acknowledged jobs: copy both files, stop that process, then restore a backup`
      : `${path}-wal belongs to the file that ${path} has replaced, and may have acknowledged jobs: copy it if you need them. jobgate deletes it when it starts`,
  );
}

/** Reads the record without a lock, because the owner holds the lock permanently. */
function recordIn(ownerPath: string): OwnerRecord | undefined {
  return reading(ownerPath, "immutable=1", (owner) =>
    owner.prepare<OwnerRecord>("SELECT * FROM record").get([]),
  );
}

/** Returns true if a process has ownership now. */
function isHeld(ownerPath: string): boolean {
  let isLocked = false;
  reading(ownerPath, "mode=ro", (owner) => {
    try {
      owner.prepare("SELECT 1 FROM record").get([]);
    } catch (error) {
      isLocked = isBusy(error);
    }
  });
  return isLocked;
}

/** Opens an owner file without writing to it. Returns undefined if it is not an owner file. */
function reading<Found>(
  ownerPath: string,
  mode: ReadMode,
  read: (owner: Database) => Found,
): Found | undefined {
  let owner: Database | undefined;
  try {
    owner = openToRead(ownerPath, mode);
    return read(owner);
  } catch {
    return undefined;
  } finally {
    owner?.close();
  }
}

/** Returns the canonical name of a file, as SQLite does, independent of symbolic links to it and of its existence. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") return path;
  }
  try {
    return realPathOf(resolve(dirname(path), readlinkSync(path)));
  } catch {
    // The name is not a link but a file that does not exist yet.
  }
  try {
    return join(realpathSync(dirname(path)), basename(path));
  } catch {
    return path;
  }
}

function sharedSet(key: symbol): Set<string> {
  const shared = globalThis as { [key: symbol]: Set<string> | undefined };
  shared[key] ??= new Set();
  return shared[key];
}

function isBusy(cause: unknown): boolean {
  return cause instanceof Error && /database is locked/.test(cause.message);
}

/** Message about a database that existed and is missing or empty now. */
function missingDatabase(path: string): string {
  return `${path} is missing or empty, but ${path}-owner shows that it had data: restore it from a backup, or delete ${path}-owner to start with an empty store that gives call IDs out again`;
}

/** Message about a database that was replaced by an older copy while the log of the newer file stayed. */
function olderCopy(path: string): string {
  return `${path} is an older copy, and ${path}-wal goes on where a newer file ended, with jobs that may have been acknowledged: put that file back if you have it, or copy ${path}-wal, then delete it to start with what ${path} has`;
}

function pidIn(ownerPath: string): number {
  return (
    reading(ownerPath, "immutable=1", (owner) =>
      owner.prepare<{ user_version: number }>("PRAGMA user_version").get([]),
    )?.user_version ?? 0
  );
}

function inUse(path: string, pid: number, cause?: unknown): StoreInUseError {
  const owner = pid === 0 ? "another process" : `process ${pid}`;
  return new StoreInUseError(
    `${path} is in use by ${owner}: one SQLite file serves one process. Stop that one, or share a Postgres store`,
    { cause },
  );
}
