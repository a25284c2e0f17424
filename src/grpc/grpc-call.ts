import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { status } from "@grpc/grpc-js";
import { FRAME_HEADER_BYTES, type MessageListener, MessageReader } from "./message-reader.ts";

/** Status with which a call ends. */
export interface GrpcStatus {
  /** Code of grpc-js's `status`. Its type is not used because an embedding program might not have grpc-js's types. */
  readonly code: number;
  readonly details: string;
}

/** Most bytes that a call buffers before `write` returns false. */
const MAX_UNSENT_BYTES = 64 * 1024;
/**
 * Smallest piece that is not copied. Smaller pieces of messages are copied together, which costs less than a separate
 * write for each piece.
 */
const MIN_UNCOPIED_BYTES = 4 * 1024;
const RESPONSE_HEADERS = {
  ":status": 200,
  "content-type": "application/grpc+proto",
  "grpc-accept-encoding": "identity,deflate,gzip",
  "grpc-encoding": "identity",
} as const;
const OK: GrpcStatus = { code: status.OK, details: "OK" };

const TIMEOUT = /^(\d{1,8})([HMSmun])$/;
const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};
/** Longest delay of a timer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** A server's end of a call. */
export class GrpcCall {
  readonly #stream: ServerHttp2Stream;
  readonly #encoding: string | undefined;
  #reader: MessageReader | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #status: GrpcStatus | undefined;
  /** Messages that wait for the end of this turn of the event loop. */
  #unwritten: { readonly pieces: readonly Uint8Array[]; readonly onWritten: () => void }[] = [];
  #unsentBytes = 0;
  #isBlocked = false;
  #onDrain: (() => void) | undefined;
  #onOver: (() => void) | undefined;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders) {
    this.#stream = stream;
    this.#encoding = headers["grpc-encoding"] as string | undefined;
    // The error is ignored, because the stream emits `close` after it, and `close` ends the call.
    stream.on("error", () => undefined);
    stream.on("close", () => this.#over());
    const timeout = headers["grpc-timeout"] as string | undefined;
    if (timeout !== undefined) this.#startDeadline(timeout);
  }

  /** Begins to read. A message larger than `maxMessageBytes`, also once decompressed, ends the call. */
  read(listener: MessageListener, maxMessageBytes: number): void {
    if (this.#status !== undefined) return;
    this.#reader = new MessageReader(this.#stream, {
      encoding: this.#encoding,
      maxMessageBytes,
      listener,
      refuse: (code, details) => this.end({ code, details }),
    });
  }

  /** Reads no further message until {@link resumeReading}. */
  pauseReading(): void {
    this.#reader?.pause();
  }

  resumeReading(): void {
    this.#reader?.resume();
  }

  /** `address:port` of the client, or `unknown`. */
  get peer(): string {
    const { remoteAddress, remotePort } = this.#stream.session?.socket ?? {};
    return remoteAddress === undefined ? "unknown" : `${remoteAddress}:${remotePort}`;
  }

  /** Ends the call with its only answer. */
  answer(message: Uint8Array): void {
    if (this.#status !== undefined || this.#isGone()) return;
    this.#status = OK;
    this.sendHeaders();
    this.#stream.end(Buffer.concat([frameHeader(message.byteLength), message]));
  }

  /** Sends the headers that come before the first of many answers. */
  sendHeaders(): void {
    if (this.#isGone()) return;
    this.#stream.respond(RESPONSE_HEADERS, { waitForTrailers: true });
    this.#stream.on("wantTrailers", () => this.#stream.sendTrailers(trailers(this.#status ?? OK)));
  }

  /**
   * Writes a message of a stream, given in pieces. Messages of one turn of the event loop share a write. Calls `onWritten`
   * once the transport has taken the message, and never if the call ends first.
   * @returns false when nothing more may be written until the call has drained
   */
  write(pieces: readonly Uint8Array[], onWritten: () => void): boolean {
    if (this.#unwritten.length === 0) process.nextTick(() => this.#flush());
    this.#unwritten.push({ pieces, onWritten });
    this.#unsentBytes += totalBytes(pieces);
    this.#isBlocked = this.#unsentBytes >= MAX_UNSENT_BYTES;
    return !this.#isBlocked;
  }

  /** Returns true if the call can write this many more bytes now. */
  hasRoom(bytes: number): boolean {
    return this.#unsentBytes + bytes < MAX_UNSENT_BYTES;
  }

  /** Calls `listener` once the transport has taken the bytes after which `write` returned false. */
  onDrain(listener: () => void): void {
    this.#onDrain = listener;
  }

  /** Calls `listener` once, however the call ends. */
  onOver(listener: () => void): void {
    this.#onOver = listener;
  }

  /** Ends the call, after what is written. Does nothing once it has ended. */
  end(ending: GrpcStatus): void {
    if (this.#status !== undefined) return;
    this.#flush();
    this.#status = ending;
    if (!this.#isGone()) {
      if (this.#stream.headersSent) this.#stream.end();
      else this.#stream.respond({ ...RESPONSE_HEADERS, ...trailers(ending) }, { endStream: true });
    }
    this.#over();
  }

  /**
   * Returns true if the stream can no longer be used. A stream can be destroyed before its `close` event, and then
   * throws.
   */
  #isGone(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  #over(): void {
    this.#status ??= OK;
    clearTimeout(this.#deadline);
    if (this.#reader !== undefined) this.#reader.stop();
    else this.#stream.resume();
    const onOver = this.#onOver;
    this.#onOver = undefined;
    onOver?.();
  }

  #startDeadline(timeout: string): void {
    const [, amount, unit = ""] = TIMEOUT.exec(timeout) ?? [];
    const timeoutMs = Number(amount) * (UNIT_MS[unit] ?? Number.NaN);
    if (Number.isNaN(timeoutMs)) {
      this.end({ code: status.INTERNAL, details: `grpc-timeout ${timeout} is not a time.` });
      return;
    }
    const exceeded = () => this.end({ code: status.DEADLINE_EXCEEDED, details: "Deadline exceeded" });
    this.#deadline = setTimeout(exceeded, Math.min(timeoutMs, MAX_TIMEOUT_MS));
  }

  #flush(): void {
    const written = this.#unwritten;
    this.#unwritten = [];
    if (written.length === 0 || this.#status !== undefined) return;
    const messages = written.map(({ pieces }) => pieces);
    const chunks = frames(messages);
    // The pieces are parts of larger buffers, which a slow reader would keep in memory. So they are copied.
    const bytes = totalBytes(messages.flat());
    const listeners = written.map(({ onWritten }) => onWritten);
    const onTaken = (error?: Error | null) => {
      // A failed stream drops what it has not sent.
      if (error) return;
      this.#unsentBytes -= bytes;
      for (const listener of listeners) listener();
      if (!this.#isBlocked || this.#unsentBytes >= MAX_UNSENT_BYTES) return;
      this.#isBlocked = false;
      this.#onDrain?.();
    };
    this.#stream.cork();
    for (const [index, chunk] of chunks.entries())
      this.#stream.write(chunk, index === chunks.length - 1 ? onTaken : undefined);
    this.#stream.uncork();
  }
}

/** Puts gRPC's header before each message, and joins all pieces except the large ones. */
function frames(messages: readonly (readonly Uint8Array[])[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  let small: Uint8Array[] = [];
  const joinSmall = () => {
    if (small.length > 0) chunks.push(Buffer.concat(small));
    small = [];
  };
  for (const pieces of messages) {
    small.push(frameHeader(totalBytes(pieces)));
    for (const piece of pieces) {
      if (piece.byteLength < MIN_UNCOPIED_BYTES) small.push(piece);
      else {
        joinSmall();
        chunks.push(piece);
      }
    }
  }
  joinSmall();
  return chunks;
}

/** Returns gRPC's header of a message: 0 for uncompressed, and the length. */
function frameHeader(messageBytes: number): Buffer {
  const header = Buffer.allocUnsafe(FRAME_HEADER_BYTES);
  header[0] = 0;
  header.writeUInt32BE(messageBytes, 1);
  return header;
}

function totalBytes(pieces: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const { byteLength } of pieces) bytes += byteLength;
  return bytes;
}

function trailers({ code, details }: GrpcStatus) {
  return { "grpc-status": code, "grpc-message": encodeURI(details) };
}
