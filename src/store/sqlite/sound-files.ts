import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { BIG_ENDIAN_MAGIC, FRAME_HEADER_BYTES, HEADER_BYTES, HEADER_SALTS } from "./database-header.ts";

/* Layouts of SQLite's files: https://sqlite.org/fileformat2.html. Numbers are big-endian. */

/** Header of a database. The page count is valid while the two counters are equal. A page size of 1 means 65536. */
const DATABASE_HEADER_BYTES = 100;
const PAGE_SIZE = 16;
const CHANGE_COUNTER = 24;
const PAGE_COUNT = 28;
const PAGE_COUNT_VALID_FOR = 92;

/** Offset of the database's size in pages, in a frame that ends a commit; 0 in other frames. */
const COMMIT_SIZE = 4;
const FRAME_SALTS = 8;
const FRAME_CHECKSUM = 16;

/**
 * Refuses files with damage that SQLite would mistake for an incomplete last commit.
 * @throws Error that names the file
 */
export function requireSoundFiles(path: string): void {
  const problem = findProblem(path);
  // Another process may have written the files while they were read.
  if (problem !== undefined && findProblem(path) === problem) throw new Error(problem);
}

function findProblem(path: string): string | undefined {
  const logBytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const header = Buffer.alloc(DATABASE_HEADER_BYTES);
  const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  // SQLite itself reports other damaged files, and a file with a journal is still being created.
  if (bytes < DATABASE_HEADER_BYTES || existsSync(`${path}-journal`)) return undefined;
  withFile(path, (file) => readSync(file, header, 0, DATABASE_HEADER_BYTES, 0));
  const pageSize = header.readUInt16BE(PAGE_SIZE) === 1 ? 65_536 : header.readUInt16BE(PAGE_SIZE);
  if (logBytes > HEADER_BYTES) {
    const damaged = withFile(`${path}-wal`, (log) => damageIn(log, pageSize));
    if (damaged === undefined) return undefined;
    return `${path}-wal is damaged at frame ${damaged}, and changes follow it that may have been acknowledged: jobgate will drop them when it starts. Copy both files, or restore a backup`;
  }
  // SQLite reads the missing part of the last page as zeros.
  const isCounted = header.readUInt32BE(CHANGE_COUNTER) === header.readUInt32BE(PAGE_COUNT_VALID_FOR);
  const expected = header.readUInt32BE(PAGE_COUNT) * pageSize;
  return isCounted && bytes < expected
    ? `${path} was truncated: it has ${bytes} bytes, and had ${expected}. Restore a backup`
    : undefined;
}

/**
 * Looks for damage in a log before its last commit. SQLite reads a log up to the first frame that is not sound and drops the
 * rest. Only a power loss during the last commit explains such a frame, because each commit is synced before the next commit
 * is written. So a sound frame behind the end of a commit shows that this commit was acknowledged.
 * @returns the first frame that is not sound, counted from 0, if an acknowledged commit ends there or later
 */
function damageIn(log: number, pageSize: number): number | undefined {
  const header = Buffer.alloc(HEADER_BYTES);
  readSync(log, header, 0, HEADER_BYTES, 0);
  const isBigEndian = header.readUInt32BE(0) === BIG_ENDIAN_MAGIC;
  const headerEnd = HEADER_BYTES - 8;
  const isHeaderSound = equal(
    checksum([0, 0], header.subarray(0, headerEnd), isBigEndian),
    header,
    headerEnd,
  );
  let salts = isHeaderSound ? header.subarray(HEADER_SALTS, HEADER_SALTS + 8) : undefined;
  let previous = storedAt(header, headerEnd);
  let damaged = isHeaderSound ? undefined : 0;
  let followsCommit = false;
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + pageSize);
  for (let index = 0; ; index++) {
    const at = HEADER_BYTES + index * frame.byteLength;
    if (readSync(log, frame, 0, frame.byteLength, at) < frame.byteLength) return undefined;
    const frameSalts = frame.subarray(FRAME_SALTS, FRAME_SALTS + 8);
    salts ??= Buffer.from(frameSalts);
    const sum = checksum(
      checksum(previous, frame.subarray(0, FRAME_SALTS), isBigEndian),
      frame.subarray(FRAME_HEADER_BYTES),
      isBigEndian,
    );
    const isSound = frameSalts.equals(salts) && equal(sum, frame, FRAME_CHECKSUM);
    if (!isSound) damaged ??= index;
    else if (followsCommit) return damaged;
    // The header of a torn frame may be mixed from two frames, so it is not used.
    followsCommit = damaged !== undefined && isSound && frame.readUInt32BE(COMMIT_SIZE) !== 0;
    // The next frame's checksum continues the stored checksum of this frame, sound or not.
    previous = storedAt(frame, FRAME_CHECKSUM);
  }
}

type Checksum = readonly [number, number];

function checksum([first, second]: Checksum, bytes: Buffer, isBigEndian: boolean): Checksum {
  let [a, b] = [first, second];
  for (let at = 0; at < bytes.byteLength; at += 8) {
    a = (a + (isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at)) + b) >>> 0;
    b = (b + (isBigEndian ? bytes.readUInt32BE(at + 4) : bytes.readUInt32LE(at + 4)) + a) >>> 0;
  }
  return [a, b];
}

const storedAt = (bytes: Buffer, at: number): Checksum => [
  bytes.readUInt32BE(at),
  bytes.readUInt32BE(at + 4),
];

function equal([first, second]: Checksum, bytes: Buffer, at: number): boolean {
  const stored = storedAt(bytes, at);
  return stored[0] === first && stored[1] === second;
}

function withFile<Result>(path: string, use: (file: number) => Result): Result {
  const file = openSync(path, "r");
  try {
    return use(file);
  } finally {
    closeSync(file);
  }
}
