import { closeSync, openSync, readSync } from "node:fs";

/* Layout of SQLite's write-ahead log: https://sqlite.org/fileformat2.html#walformat. Numbers are big-endian. */

export const HEADER_BYTES = 32;
export const HEADER_SALTS = 16;
export const FRAME_HEADER_BYTES = 24;
/** Magic number of a log whose checksums use big-endian words. The number for little-endian words is lower by 1. */
export const BIG_ENDIAN_MAGIC = 0x377f0683;

export function isLogMagic(number: number): boolean {
  return number === BIG_ENDIAN_MAGIC || number === BIG_ENDIAN_MAGIC - 1;
}

/* Header of a database: https://sqlite.org/fileformat2.html#the_database_header. Numbers are big-endian. */

const DATABASE_HEADER_BYTES = 100;
const MAGIC = Buffer.from("SQLite format 3\0", "latin1");
/**
 * Offset of two bytes. The bytes are 2 in a file with a write-ahead log, which is every file that jobgate serves. In a
 * copy, they are 1.
 */
export const FILE_VERSIONS_OFFSET = 18;
const LOGGED = Buffer.from([2, 2]);
const COMMIT_NUMBER_OFFSET = 68;

/**
 * Pragma that holds the number of jobgate's last commit. Each commit that changes something writes a higher number, so a
 * copy of the file that lacks a commit has a lower number. SQLite's own change counter does not change with the commits of a
 * connection that uses a log.
 */
export const COMMIT_NUMBER_PRAGMA = "application_id";

/** Returns how many commits `to` is ahead of `from`. The numbers have 32 bits and wrap around. */
const commitsBetween = (from: number, to: number) => (to - from) | 0;

/** One number that the database's threads share. */
export type SeenCommit = Int32Array<SharedArrayBuffer>;

export const newSeenCommit = (): SeenCommit => new Int32Array(new SharedArrayBuffer(4));

/** Maximum number of reads of a header, because a checkpoint may be writing it. */
const READS = 3;

/** The header, without the log, of a database file that this process serves. */
export class WatchedHeader {
  readonly #file: number;
  /** Number of the last commit with which any thread has seen the file. */
  readonly #seen: SeenCommit;
  /** Buffer of {@link isForeign}, which runs around each commit. */
  readonly #header = Buffer.alloc(DATABASE_HEADER_BYTES);

  constructor(path: string, seen: SeenCommit) {
    this.#file = openSync(path, "r");
    this.#seen = seen;
  }

  /** Notes the number with which the file was opened. */
  begin(): void {
    Atomics.store(this.#seen, 0, readHeader(this.#file)?.readInt32BE(COMMIT_NUMBER_OFFSET) ?? 0);
  }

  /** Returns true if another program has written an older copy over the file. Checkpoints never lower the number. */
  isForeign(): boolean {
    let previous: Buffer | undefined;
    for (let read = 0; read < READS; read++) {
      const header = readHeader(this.#file, this.#header);
      // The file is truncated, which the check of its size reports.
      if (header === undefined) return false;
      const commit = header.readInt32BE(COMMIT_NUMBER_OFFSET);
      if (isLogged(header) && commitsBetween(Atomics.load(this.#seen, 0), commit) >= 0) {
        Atomics.store(this.#seen, 0, commit);
        return false;
      }
      if (previous?.equals(header)) return true;
      previous = Buffer.from(header);
    }
    return true;
  }

  /**
   * Closes the file. Call it only after the connection is closed, because closing the file releases this process's locks on
   * it.
   */
  close(): void {
    closeSync(this.#file);
  }
}

/**
 * Returns true if a database lacks commits that were made before its log began. Then an older copy was written over the
 * database or replaced it, and applying the log would corrupt it. The log of a killed process begins where its file ended,
 * or earlier.
 */
export function isOlderThanLog(path: string): boolean {
  // The check runs twice, because another process may be writing both files.
  return lacksCommits(path) && lacksCommits(path);
}

function lacksCommits(path: string): boolean {
  // The log is read first, because the number in the file never falls.
  const first = withFile(`${path}-wal`, firstCommitIn);
  const header = first === undefined ? undefined : withFile(path, readHeader);
  if (first === undefined || header === undefined || !isLogged(header)) return false;
  return commitsBetween(header.readInt32BE(COMMIT_NUMBER_OFFSET), first) > 1;
}

/** Returns the number of the first commit in a log; undefined if the log is empty. */
function firstCommitIn(log: number): number | undefined {
  const header = Buffer.alloc(HEADER_BYTES);
  if (readSync(log, header, 0, HEADER_BYTES, 0) < HEADER_BYTES || !isLogMagic(header.readUInt32BE(0))) return;
  const salts = header.subarray(HEADER_SALTS, HEADER_SALTS + 8);
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + DATABASE_HEADER_BYTES);
  const frameBytes = FRAME_HEADER_BYTES + header.readUInt32BE(8);
  for (let at = HEADER_BYTES; ; at += frameBytes) {
    if (readSync(log, frame, 0, frame.byteLength, at) < frame.byteLength) return undefined;
    if (!frame.subarray(8, 16).equals(salts)) return undefined;
    const page = frame.subarray(FRAME_HEADER_BYTES);
    if (frame.readUInt32BE(0) === 1) {
      return page.subarray(0, MAGIC.byteLength).equals(MAGIC)
        ? page.readInt32BE(COMMIT_NUMBER_OFFSET)
        : undefined;
    }
  }
}

function isLogged(header: Buffer): boolean {
  const versions = header.subarray(FILE_VERSIONS_OFFSET, FILE_VERSIONS_OFFSET + LOGGED.byteLength);
  return header.subarray(0, MAGIC.byteLength).equals(MAGIC) && versions.equals(LOGGED);
}

function readHeader(file: number, header = Buffer.alloc(DATABASE_HEADER_BYTES)): Buffer | undefined {
  return readSync(file, header, 0, header.byteLength, 0) < header.byteLength ? undefined : header;
}

/** Returns undefined if there is no such file. */
function withFile<Result>(path: string, use: (file: number) => Result): Result | undefined {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    return use(file);
  } finally {
    closeSync(file);
  }
}
