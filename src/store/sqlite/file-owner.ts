import { readFileSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { StoreInUseError } from "../store.ts";
import type { Database } from "./driver.ts";
import { openFile, reasonOf, removeForeignLog } from "./open-database.ts";

/** `application_id` of an owner file once the database beside it has tables: "jobg" in ASCII. */
const DATABASE_WAS_MADE = 0x6a_6f_62_67;
/** Position of `user_version` in the header of an SQLite file, 4 bytes, big-endian. */
const USER_VERSION_OFFSET = 60;

/** Paths of the owner files that this process holds, over all copies of this module. */
const heldHere = sharedSet(Symbol.for("jobgate.ownerFiles"));

/**
 * Ownership of a database file by one store. SQLite's exclusive lock on the file `PATH-owner` holds it: Node has no lock
 * of its own that the system releases at any death. The database itself stays open to readers and backups.
 *
 * The owner file keeps the owner's pid as its `user_version`, and outlives a deleted database, so that the next start
 * does not begin with an empty one unnoticed.
 */
export class FileOwner {
  /** The database, its log and the owner file, without symbolic links. */
  readonly files: readonly [database: string, log: string, owner: string];
  readonly #lock: Database;

  /**
   * Takes ownership.
   * @throws StoreInUseError when another store has it
   * @throws Error when the database is gone, or its folder cannot be written to
   */
  static take(path: string): FileOwner {
    const databasePath = realPathOf(path);
    const ownerPath = `${databasePath}-owner`;
    // Opening and closing the file here, even to read it, would release the lock: POSIX locks belong to the process.
    if (heldHere.has(ownerPath)) throw inUse(path, process.pid);
    const lock = openFile(ownerPath);
    try {
      lock.prepare("PRAGMA busy_timeout = 0").all([]);
      write(lock, `PRAGMA user_version = ${process.pid}`);
    } catch (cause) {
      lock.close();
      if (isBusy(cause)) throw inUse(path, pidIn(ownerPath), cause);
      throw new Error(`${ownerPath} cannot be written: ${reasonOf(cause)}`, { cause });
    }
    heldHere.add(ownerPath);
    const owner = new FileOwner([databasePath, `${databasePath}-wal`, ownerPath], lock);
    removeForeignLog(databasePath);
    const size = statSync(databasePath, { throwIfNoEntry: false })?.size ?? 0;
    if (size > 0 || !owner.wasMade) return owner;
    owner.release();
    throw new Error(missingDatabase(path));
  }

  private constructor(files: FileOwner["files"], lock: Database) {
    this.files = files;
    this.#lock = lock;
  }

  /** The database beside the owner file had tables at some time. */
  get wasMade(): boolean {
    const row = this.#lock.prepare<{ application_id: number }>("PRAGMA application_id").get([]);
    return row?.application_id === DATABASE_WAS_MADE;
  }

  /** Records that the database has tables now. */
  markMade(): void {
    if (this.wasMade) return;
    this.#lock.exec("ROLLBACK");
    write(this.#lock, `PRAGMA application_id = ${DATABASE_WAS_MADE}`);
  }

  /** Gives ownership up. The owner file stays. */
  release(): void {
    if (!heldHere.delete(this.files[2])) return;
    // libsql keeps a closed connection, and its locks, until its statements are collected.
    this.#lock.exec("ROLLBACK");
    this.#lock.close();
  }
}

/** Commits a change to the owner file, and locks it again: a commit ends the lock for an instant. */
function write(lock: Database, change: string): void {
  lock.exec("BEGIN EXCLUSIVE");
  lock.exec(change);
  lock.exec("COMMIT");
  lock.exec("BEGIN EXCLUSIVE");
}

/** Returns one name for one file, as SQLite does, whatever symbolic links lead to it and whether or not it exists. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") return path;
  }
  try {
    return realPathOf(resolve(dirname(path), readlinkSync(path)));
  } catch {
    // Not a link: a file that does not exist yet.
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

/** Reads the pid without a lock, because the owner holds it for good. */
function pidIn(ownerPath: string): number {
  const header = readFileSync(ownerPath);
  return header.byteLength < USER_VERSION_OFFSET + 4 ? 0 : header.readInt32BE(USER_VERSION_OFFSET);
}

function inUse(path: string, pid: number, cause?: unknown): StoreInUseError {
  const owner = pid === 0 ? "another process" : `process ${pid}`;
  return new StoreInUseError(
    `${path} is in use by ${owner}: one SQLite file serves one process. Stop that one, or share a Postgres store`,
    { cause },
  );
}
