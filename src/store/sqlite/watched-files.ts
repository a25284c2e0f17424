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
 * The database's files as they were when it was opened. A process can continue to write to a file that was deleted or
 * replaced, but a restart will not find those writes. Only checking the path reveals this.
 */
export class WatchedFiles {
  readonly #seen: readonly Seen[];
  readonly #database: DatabaseSize;
  readonly #header: WatchedHeader | undefined;
  readonly #log: WatchedLog | undefined;
  #lostReason: string | undefined;
  #truncatedLog: TruncatedLog | undefined;
  /** Smallest size to which the database has shrunk since its file was last seen complete. */
  #shrunkTo = Number.POSITIVE_INFINITY;

  /** @param paths path of the database, then of its log */
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
   * @param isIdle true if there is time to examine a file that looks too short
   * @throws Error when a file was deleted, replaced, overwritten or truncated, now or earlier
   */
  check({ isIdle }: { isIdle: boolean }): void {
    this.#lostReason ??= this.#findLoss(isIdle);
    if (this.#lostReason !== undefined) throw new Error(this.#lostReason);
  }

  /** Records that the database may have given pages back. Its file becomes shorter once the log is copied. */
  noteShrunk(): void {
    this.#shrunkTo = Math.min(this.#shrunkTo, this.#database.bytes());
  }

  /** Call it only after the connection is closed. */
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
    // The check comes before the log is copied anywhere.
    if (database !== undefined && this.#header?.isForeign()) return text(database, "overwritten");
    // The log is checked first, because checking the database's size may copy the log.
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

  /** @param size size of the file before the log was checked */
  #isDatabaseTruncated(file: Seen, size: bigint, isIdle: boolean): boolean {
    // The file also shrinks when the database gives pages back, and may not contain pages of the log yet.
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

/** Check of the files before a checkpoint, on another connection than the writer's. */
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

  /** Returns false if a checkpoint would copy lost data, or would copy the log to a place where a restart does not find it. */
  get allowsCheckpoint(): boolean {
    const isInPlace =
      this.#database !== undefined && lossOf(this.#database, statOf(this.#database.path)) === undefined;
    return isInPlace && !this.#header.isForeign() && this.#log.look() === "whole";
  }

  /** Records the commits that the database has after a checkpoint. A copy that lacks them is older. */
  checkpointed(): void {
    this.#header.isForeign();
  }

  /** Call it only after the connection is closed. */
  close(): void {
    this.#header.close();
    this.#log.close();
  }
}

/** `copied`: the database has all commits of the truncated log. `lost`: the database lacks some of them. */
export type TruncatedLog = "copied" | "lost";

interface DatabaseSize {
  readonly pageBytes: number;
  /** Returns the size that the database itself reports. */
  bytes(): number;
  /** Copies the log into the database, and returns whether the database then has all frames. */
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
