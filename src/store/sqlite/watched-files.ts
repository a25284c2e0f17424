import { statSync } from "node:fs";
import { type SeenCommit, WatchedHeader } from "./database-header.ts";
import { WatchedLog } from "./watched-log.ts";

interface Seen {
  readonly path: string;
  readonly device: bigint;
  readonly inode: bigint;
  size: bigint;
}

/**
 * The database's files as they were when it was opened. A process goes on writing to a file that was deleted or replaced,
 * and nothing of that is there after a restart: only a look at the path shows it.
 */
export class WatchedFiles {
  readonly #seen: readonly Seen[];
  readonly #database: DatabaseSize;
  readonly #header: WatchedHeader | undefined;
  readonly #log: WatchedLog | undefined;
  #lostReason: string | undefined;
  #truncatedLog: TruncatedLog | undefined;
  /** Smallest size that the database gave itself since its file was last seen complete. */
  #shrunkTo = Number.POSITIVE_INFINITY;

  /** @param paths the database first, then its log */
  constructor(paths: readonly string[], database: DatabaseSize, seenCommit: SeenCommit) {
    this.#seen = paths.flatMap(seenAt);
    this.#database = database;
    const [main, log] = paths;
    this.#header = main === undefined ? undefined : new WatchedHeader(main, seenCommit);
    this.#header?.begin();
    this.#log = log === undefined ? undefined : new WatchedLog(log, database.pageBytes);
  }

  /** Consequence of a truncation of the log; undefined if the log is whole. */
  get truncatedLog(): TruncatedLog | undefined {
    return this.#truncatedLog;
  }

  /**
   * @param isIdle there is time to find out whether a file that looks short lost its end before it was seen longer
   * @throws Error when a file was deleted, replaced, overwritten or truncated, now or earlier
   */
  check({ isIdle }: { isIdle: boolean }): void {
    this.#lostReason ??= this.#findLoss(isIdle);
    if (this.#lostReason !== undefined) throw new Error(this.#lostReason);
  }

  /** Notes that the database may have given pages back: its file becomes shorter once the log is copied. */
  noteShrunk(): void {
    this.#shrunkTo = Math.min(this.#shrunkTo, this.#database.bytes());
  }

  /** Only after the connection is closed. */
  close(): void {
    this.#header?.close();
    this.#log?.close();
  }

  #findLoss(isIdle: boolean): string | undefined {
    const text = (file: Seen, how: string) =>
      `${file.path} was ${how} while in use: restore the database, then restart jobgate`;
    const [database, log] = this.#seen;
    const found = this.#seen.map(({ path }) => statOf(path));
    for (const [index, file] of this.#seen.entries()) {
      const how = lossOf(file, found[index]);
      if (how !== undefined) return text(file, how);
    }
    const [databaseBytes = 0n, logBytes = 0n] = found.map((file) => file?.size);
    // Before the log is copied anywhere.
    if (database !== undefined && this.#header?.isForeign()) return text(database, "overwritten");
    // The log first: a look at the database's size may copy it.
    if (log !== undefined && this.#isLogTruncated(Number(logBytes))) {
      const rest = this.#truncatedLog === "copied" ? "nothing is lost, restart jobgate" : undefined;
      return rest === undefined ? text(log, "truncated") : `${log.path} was truncated while in use: ${rest}`;
    }
    const isTruncated = database !== undefined && this.#isDatabaseTruncated(database, databaseBytes, isIdle);
    return isTruncated ? text(database, "truncated") : undefined;
  }

  #isLogTruncated(size: number): boolean {
    const state = this.#log?.look(size) ?? "whole";
    if (state === "whole") return false;
    if (state === "torn") {
      this.#log?.cut();
      this.#truncatedLog = "lost";
      return true;
    }
    const { frames, isCopied } = this.#database.copyLog();
    if (state === "empty" && frames === 0) {
      this.#log?.wasEmptied();
      return false;
    }
    this.#truncatedLog = isCopied ? "copied" : "lost";
    return true;
  }

  /** @param size of the file, before the look at the log */
  #isDatabaseTruncated(file: Seen, size: bigint, isIdle: boolean): boolean {
    // Giving pages back makes the file smaller too, and pages in the log may not be in it yet.
    const isShorter = size < file.size;
    if (!isShorter && !isIdle) {
      file.size = size;
      return false;
    }
    const bytes = this.#database.bytes();
    if (isShorter && size < Math.min(bytes, this.#shrunkTo)) return true;
    file.size = size;
    const isComplete = size >= bytes && this.#shrunkTo === Number.POSITIVE_INFINITY;
    if (!isIdle || isComplete || !this.#database.copyLog().isCopied) return false;
    this.#shrunkTo = Number.POSITIVE_INFINITY;
    return (statOf(file.path)?.size ?? 0n) < bytes;
  }
}

/** A look at the files before a checkpoint, on another connection than the one that writes. */
export class CheckpointGuard {
  readonly #database: Seen | undefined;
  readonly #header: WatchedHeader;
  readonly #log: WatchedLog;

  constructor(
    [database, log]: readonly [database: string, log: string, ...rest: string[]],
    pageBytes: number,
    seenCommit: SeenCommit,
  ) {
    this.#database = seenAt(database)[0];
    this.#header = new WatchedHeader(database, seenCommit);
    this.#log = new WatchedLog(log, pageBytes);
  }

  /** Returns false if a checkpoint would copy what was lost, or copy it to where a restart does not find it. */
  get allowsCheckpoint(): boolean {
    const isInPlace =
      this.#database !== undefined && lossOf(this.#database, statOf(this.#database.path)) === undefined;
    return isInPlace && !this.#header.isForeign() && this.#log.look() === "whole";
  }

  /** Notes which commits the database has after a checkpoint: a copy that lacks them is older. */
  checkpointed(): void {
    this.#header.isForeign();
  }

  /** Only after the connection is closed. */
  close(): void {
    this.#header.close();
    this.#log.close();
  }
}

/** `copied`: the database has all commits of the truncated log. `lost`: it lacks some. */
export type TruncatedLog = "copied" | "lost";

interface DatabaseSize {
  readonly pageBytes: number;
  /** Returns the size that the database itself reports. */
  bytes(): number;
  /** Copies the log into the database, and returns whether all of its frames are there. */
  copyLog(): { readonly frames: number; readonly isCopied: boolean };
}

const statOf = (path: string) => statSync(path, { bigint: true, throwIfNoEntry: false });

function seenAt(path: string): Seen[] {
  const found = statOf(path);
  return found === undefined ? [] : [{ path, device: found.dev, inode: found.ino, size: found.size }];
}

function lossOf({ device, inode }: Seen, found: ReturnType<typeof statOf>): string | undefined {
  if (found === undefined) return "deleted or moved";
  return found.dev === device && found.ino === inode ? undefined : "replaced";
}
