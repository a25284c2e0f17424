import { closeSync, fstatSync, ftruncateSync, openSync, readSync } from "node:fs";
import { FRAME_HEADER_BYTES, HEADER_BYTES, HEADER_SALTS, isLogMagic } from "./log-format.ts";
import { LOG_SIZE_LIMIT } from "./open-database.ts";

/**
 * State of a log: `empty` after another program's checkpoint and after a truncation, which its file cannot tell apart;
 * `truncated` if the file lost its end; `torn` if a commit was written behind the end that the file had lost.
 */
export type LogState = "whole" | "empty" | "truncated" | "torn";

/**
 * A write-ahead log that this process writes. SQLite keeps the number of its frames in shared memory, so it does not
 * notice that the file became shorter: the next commit leaves a hole, and a checkpoint copies zeros from it into the database.
 */
export class WatchedLog {
  readonly #file: number;
  readonly #frameBytes: number;
  /** Random numbers that SQLite changes each time when it begins the log anew. */
  #salts: Buffer = Buffer.alloc(0);
  /** End of the last frame that was seen since. */
  #seenBytes = 0;

  constructor(path: string, pageSize: number) {
    this.#file = openSync(path, "r+");
    this.#frameBytes = FRAME_HEADER_BYTES + pageSize;
    this.look();
  }

  look(): LogState {
    const { size } = fstatSync(this.#file);
    if (size < HEADER_BYTES) return this.#seenBytes === 0 ? "whole" : "empty";
    const header = this.#read(0, HEADER_BYTES);
    // SQLite writes over a log that was no log when it was opened.
    if (!isLogMagic(header.readUInt32BE(0))) return this.#seenBytes === 0 ? "whole" : "torn";
    const salts = header.subarray(HEADER_SALTS, HEADER_SALTS + 8);
    if (!salts.equals(this.#salts)) {
      this.#salts = salts;
      this.#seenBytes = 0;
    }
    if (size < this.#seenBytes) return "truncated";
    if (this.#seenBytes > HEADER_BYTES && this.#isHole(this.#seenBytes - this.#frameBytes)) return "torn";
    // SQLite cuts a longer log to this limit.
    const frames = Math.floor((Math.min(size, LOG_SIZE_LIMIT) - HEADER_BYTES) / this.#frameBytes);
    const end = HEADER_BYTES + frames * this.#frameBytes;
    // A power loss leaves zeros behind the last commit, over which SQLite writes.
    if (frames > 0 && !this.#isHole(end - this.#frameBytes)) this.#seenBytes = end;
    return "whole";
  }

  /** Notes that another program's checkpoint has emptied the log. */
  wasEmptied(): void {
    this.#seenBytes = 0;
  }

  /** Cuts a torn log where its hole begins: nothing behind it was acknowledged, and no checkpoint can copy the hole then. */
  cut(): void {
    let end = HEADER_BYTES;
    const { size } = fstatSync(this.#file);
    if (!isLogMagic(this.#read(0, HEADER_BYTES).readUInt32BE(0))) end = 0;
    else while (end < size && !this.#isHole(end)) end += this.#frameBytes;
    ftruncateSync(this.#file, Math.min(end, size));
  }

  close(): void {
    closeSync(this.#file);
  }

  /** Returns true if the header of a frame has no page number. */
  #isHole(at: number): boolean {
    return this.#read(at, 4).readUInt32BE(0) === 0;
  }

  #read(at: number, bytes: number) {
    const buffer = Buffer.alloc(bytes);
    readSync(this.#file, buffer, 0, bytes, at);
    return buffer;
  }
}
