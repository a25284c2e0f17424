import { statSync } from "node:fs";

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
  #lostReason: string | undefined;
  /** Smallest size that the database gave itself since its file was last seen complete. */
  #shrunkTo = Number.POSITIVE_INFINITY;

  /** @param paths the database first */
  constructor(paths: readonly string[], database: DatabaseSize) {
    this.#seen = paths.flatMap((path) => {
      const found = statSync(path, { bigint: true, throwIfNoEntry: false });
      return found === undefined ? [] : [{ path, device: found.dev, inode: found.ino, size: found.size }];
    });
    this.#database = database;
  }

  /**
   * @param isIdle there is time to find out whether a file that looks short lost its end before it was seen longer
   * @throws Error when a file was deleted, replaced or truncated, now or earlier
   */
  check({ isIdle }: { isIdle: boolean }): void {
    this.#lostReason ??= this.#findLoss(isIdle);
    if (this.#lostReason !== undefined) throw new Error(this.#lostReason);
  }

  /** Notes that the database may have given pages back: its file becomes shorter once the log is copied. */
  noteShrunk(): void {
    this.#shrunkTo = Math.min(this.#shrunkTo, this.#database.bytes());
  }

  #findLoss(isIdle: boolean): string | undefined {
    for (const [index, file] of this.#seen.entries()) {
      const how = index === 0 ? this.#lossOfDatabase(file, isIdle) : lossOf(file, statOf(file));
      if (how !== undefined)
        return `${file.path} was ${how} while in use: restore the database, then restart jobgate`;
    }
    return undefined;
  }

  #lossOfDatabase(file: Seen, isIdle: boolean): string | undefined {
    const found = statOf(file);
    const how = lossOf(file, found);
    if (how !== undefined || found === undefined) return how;
    // Giving pages back makes the file smaller too, and pages in the log may not be in it yet.
    const isShorter = found.size < file.size;
    if (!isShorter && !isIdle) {
      file.size = found.size;
      return undefined;
    }
    const bytes = this.#database.bytes();
    if (isShorter && found.size < Math.min(bytes, this.#shrunkTo)) return "truncated";
    file.size = found.size;
    const isComplete = found.size >= bytes && this.#shrunkTo === Number.POSITIVE_INFINITY;
    if (!isIdle || isComplete || !this.#database.isLogCopied()) return undefined;
    this.#shrunkTo = Number.POSITIVE_INFINITY;
    const size = statOf(file)?.size ?? 0n;
    return size < bytes ? "truncated" : undefined;
  }
}

interface DatabaseSize {
  /** Returns the size that the database itself reports. */
  bytes(): number;
  /** Copies the log into the database, and returns whether all of it is there. */
  isLogCopied(): boolean;
}

function statOf({ path }: Seen) {
  return statSync(path, { bigint: true, throwIfNoEntry: false });
}

function lossOf({ device, inode }: Seen, found: ReturnType<typeof statOf>): string | undefined {
  if (found === undefined) return "deleted or moved";
  return found.dev === device && found.ino === inode ? undefined : "replaced";
}
