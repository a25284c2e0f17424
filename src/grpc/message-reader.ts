import type { ServerHttp2Stream } from "node:http2";
import { gunzip, inflate } from "node:zlib";
import { status } from "@grpc/grpc-js";

/** Receives the messages of a call. */
export interface MessageListener {
  onMessage(message: Buffer): void;
  /** Called after the last message. `isWhole` is false when the client stopped within a message. */
  onEnd(isWhole: boolean): void;
}

/** Bytes of gRPC's header before each message: whether it is compressed, and its length. */
export const FRAME_HEADER_BYTES = 5;
/** Smallest buffer for a message that comes in parts. */
const MIN_BUFFER_BYTES = 1024;
const EMPTY = Buffer.alloc(0);

/** Reads the messages of a call, one after the other, in the order in which they were sent. */
export class MessageReader {
  readonly #stream: ServerHttp2Stream;
  readonly #encoding: string | undefined;
  readonly #maxMessageBytes: number;
  readonly #listener: MessageListener;
  readonly #refuse: (code: number, details: string) => void;
  /** Received bytes that are not read yet, from `#start` to `#end`. */
  #buffer: Buffer = EMPTY;
  #start = 0;
  #end = 0;
  /** True while the buffer belongs to the reader, which can then write after `#end`. */
  #isOwnBuffer = false;
  #isReading = false;
  #isPaused = false;
  #isDecompressing = false;
  #hasEnded = false;
  #isStopped = false;

  constructor(
    stream: ServerHttp2Stream,
    options: {
      /** Encoding of compressed messages, from the call's headers. */
      readonly encoding: string | undefined;
      /** Largest accepted message, also once decompressed. */
      readonly maxMessageBytes: number;
      readonly listener: MessageListener;
      /** Called with the status that the call must end with. */
      readonly refuse: (code: number, details: string) => void;
    },
  ) {
    this.#stream = stream;
    this.#encoding = options.encoding;
    this.#maxMessageBytes = options.maxMessageBytes;
    this.#listener = options.listener;
    this.#refuse = options.refuse;
    stream.on("data", (chunk: Buffer) => this.#receive(chunk));
    stream.on("end", () => {
      this.#hasEnded = true;
      this.#read();
    });
  }

  /** Reads nothing until {@link resume}. What the client sends meanwhile fills the stream's window, and then waits. */
  pause(): void {
    this.#isPaused = true;
    if (!this.#isStopped) this.#stream.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#continue();
  }

  /** Discards buffered bytes and everything that follows. */
  stop(): void {
    this.#isStopped = true;
    this.#buffer = EMPTY;
    this.#stream.resume();
  }

  #receive(chunk: Buffer): void {
    if (this.#isStopped) return;
    if (this.#start < this.#end) this.#append(chunk);
    else {
      this.#buffer = chunk;
      this.#isOwnBuffer = false;
      this.#start = 0;
      this.#end = chunk.byteLength;
    }
    this.#read();
  }

  /** Copies a chunk behind the unread bytes, because a list of chunks could cost much more memory than their bytes. */
  #append(chunk: Buffer): void {
    const end = this.#end + chunk.byteLength;
    if (!this.#isOwnBuffer || end > this.#buffer.byteLength) {
      const unread = this.#buffer.subarray(this.#start, this.#end);
      const bytes = unread.byteLength + chunk.byteLength;
      // Callers may still use messages that were read, so their buffer is not overwritten.
      this.#buffer = Buffer.allocUnsafeSlow(Math.max(2 * bytes, MIN_BUFFER_BYTES));
      this.#buffer.set(unread);
      this.#isOwnBuffer = true;
      this.#start = 0;
      this.#end = unread.byteLength;
    }
    this.#buffer.set(chunk, this.#end);
    this.#end += chunk.byteLength;
  }

  #read(): void {
    // A listener that receives a message may call `resume`, while the loop below is running.
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#mayRead() && this.#readMessage());
    this.#isReading = false;
    if (!this.#mayRead()) return;
    const isWhole = this.#start === this.#end;
    if (isWhole) this.#buffer = EMPTY;
    // A stream that its client resets ends as well.
    if (!this.#hasEnded || this.#stream.destroyed || this.#stream.closed) return;
    this.#isStopped = true;
    this.#listener.onEnd(isWhole);
  }

  #mayRead(): boolean {
    return !this.#isStopped && !this.#isPaused && !this.#isDecompressing;
  }

  /** Reads the next message. @returns false when it has not arrived yet */
  #readMessage(): boolean {
    if (this.#end - this.#start < FRAME_HEADER_BYTES) return false;
    const messageBytes = this.#buffer.readUInt32BE(this.#start + 1);
    if (messageBytes > this.#maxMessageBytes) {
      this.#refuseSize();
      return false;
    }
    const start = this.#start + FRAME_HEADER_BYTES;
    const end = start + messageBytes;
    if (end > this.#end) return false;
    const isCompressed = this.#buffer[this.#start] !== 0;
    this.#start = end;
    const message = this.#buffer.subarray(start, end);
    if (isCompressed) this.#decompress(message);
    else this.#listener.onMessage(message);
    return true;
  }

  #decompress(message: Buffer): void {
    const decompress =
      this.#encoding === "gzip" ? gunzip : this.#encoding === "deflate" ? inflate : undefined;
    if (decompress === undefined) {
      this.#refuse(status.UNIMPLEMENTED, `The encoding ${this.#encoding} is not supported.`);
      return;
    }
    this.#isDecompressing = true;
    this.#stream.pause();
    decompress(message, { maxOutputLength: this.#maxMessageBytes }, (error, decompressed) => {
      this.#isDecompressing = false;
      if (this.#isStopped) return;
      if (error === null) this.#listener.onMessage(decompressed);
      else if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") this.#refuseSize();
      else this.#refuse(status.INTERNAL, "The request cannot be decompressed.");
      this.#continue();
    });
  }

  #continue(): void {
    this.#read();
    if (this.#mayRead()) this.#stream.resume();
  }

  #refuseSize(): void {
    this.#refuse(status.RESOURCE_EXHAUSTED, `The request is larger than ${this.#maxMessageBytes} bytes.`);
  }
}
