import { closeSync, fstatSync, ftruncateSync, openSync, readSync } from "node:fs";
import { FRAME_HEADER_BYTES, HEADER_BYTES, HEADER_SALTS, isLogMagic } from "./database-header.ts";
import { LOG_SIZE_LIMIT } from "./open-database.ts";

/**
 * State of a log. `empty`: after another program's checkpoint or after a truncation, because the file looks the same after
 * both. `truncated`: the file lost its end. `torn`: a commit was written behind the lost end.
 */
export type LogState = "whole" | "empty" | "truncated" | "torn";

/**
 * A write-ahead log that this process writes. SQLite keeps the number of its frames in shared memory, so it does not notice
 * that the file became shorter. The next commit then leaves a hole, and a checkpoint copies zeros from the hole into the
 * database.
 */
export class WatchedLog {
  readonly #file: number;
  readonly #frameBytes: number;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  /** First bytes of a frame. */
  readonly #pageNumber = Buffer.alloc(4);
  /** Random numbers that SQLite changes whenever it restarts the log. */
  #salts: Buffer = Buffer.alloc(0);
  /** End of the last frame that was seen since the log was restarted. */
  #seenBytes = 0;

  constructor(path: string, pageSize: number) {
    this.#file = openSync(path, "r+");
    this.#frameBytes = FRAME_HEADER_BYTES + pageSize;
    this.look();
  }

  /** @param size current size of the file */
  look(size = fstatSync(this.#file).size): LogState {
    if (size < HEADER_BYTES) return this.#seenBytes === 0 ? "whole" : "empty";
    // SQLite overwrites a file that was not a valid log when it was opened.
    if (!this.#hasHeader()) return this.#seenBytes === 0 ? "whole" : "torn";
    const salts = this.#header.subarray(HEADER_SALTS, HEADER_SALTS + 8);
    if (!salts.equals(this.#salts)) {
      this.#salts = Buffer.from(salts);
      this.#seenBytes = 0;
    }
    if (size < this.#seenBytes) return "truncated";
    if (this.#seenBytes > HEADER_BYTES && this.#isHole(this.#seenBytes - this.#frameBytes)) return "torn";
    // SQLite truncates a longer log to this limit.
    const frames = Math.floor((Math.min(size, LOG_SIZE_LIMIT) - HEADER_BYTES) / this.#frameBytes);
    const end = HEADER_BYTES + frames * this.#frameBytes;
    // A power loss leaves zeros behind the last commit, which SQLite overwrites.
    if (end !== this.#seenBytes && frames > 0 && !this.#isHole(end - this.#frameBytes)) this.#seenBytes = end;
    return "whole";
  }

  /** Notes that another program's checkpoint has emptied the log. */
  wasEmptied(): void {
    this.#seenBytes = 0;
  }

  /**
   * Truncates a torn log where its hole begins, so that no checkpoint can copy the hole. No commit behind the hole was
   * acknowledged.
   */
  cut(): void {
    let end = HEADER_BYTES;
    const { size } = fstatSync(this.#file);
    if (!this.#hasHeader()) end = 0;
    else while (end < size && !this.#isHole(end)) end += this.#frameBytes;
    ftruncateSync(this.#file, Math.min(end, size));
  }

  close(): void {
    closeSync(this.#file);
  }

  #hasHeader(): boolean {
    this.#read(this.#header, 0);
    return isLogMagic(this.#header.readUInt32BE(0));
  }

  /** Returns true if the header of a frame has no page number. */
  #isHole(at: number): boolean {
    this.#read(this.#pageNumber, at);
    return this.#pageNumber.readUInt32BE(0) === 0;
  }

  /** Reads bytes. Bytes behind the end of the file are zero. */
  #read(bytes: Buffer, at: number): void {
    const length = readSync(this.#file, bytes, 0, bytes.byteLength, at);
    bytes.fill(0, length);
  }
}
