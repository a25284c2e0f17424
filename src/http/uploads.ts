import { IncomingMessage } from "node:http";
import { GatewayError } from "../core/errors.ts";

/** Receives a body as it arrives. */
interface BodySink {
  add(bytes: Buffer): void;
  /** Called once the body is complete. */
  end(): void;
  /** Called if the client disconnects before the body is complete. */
  fail(cause: Error | null): void;
}

/**
 * Node's request, which can hand its body to a sink while the parser reads it. Reading a body of one piece as a stream, with
 * its states, ticks and events, takes a fifth of a small request's JavaScript time. Without a sink, the request is a usual
 * stream.
 */
export class Incoming extends IncomingMessage {
  #sink: BodySink | undefined;
  #invite: (() => void) | undefined;

  /** Sets the function that sends `100 Continue`, which the first reader of the body calls. */
  invitesBy(invite: () => void): void {
    this.#invite = invite;
  }

  /** Sends `100 Continue` to a client that waits for it. */
  invite(): void {
    this.#invite?.();
    this.#invite = undefined;
  }

  /** Passes on the bytes that have arrived, and then each piece as it arrives. */
  collect(sink: BodySink): void {
    this.invite();
    while (this.readableLength > 0) sink.add(this.read() as Buffer);
    this.#sink = sink;
    if (this.complete) sink.end();
  }

  /** Node calls this for each piece of the body, and with null at its end. */
  override push(piece: Buffer | null): boolean {
    if (this.#sink === undefined) return super.push(piece);
    if (piece === null) this.#sink.end();
    else this.#sink.add(piece);
    return true;
  }

  /** Node calls this after the answer, to discard the unread rest of the body. With a sink, there is no rest. */
  override resume(): this {
    return this.#sink === undefined ? super.resume() : this;
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#sink?.fail(error);
    super._destroy(error, callback);
  }
}

/** Thrown when the client disconnects before its request is complete, so that no answer can reach it. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

const DEFAULT_MAX_HELD_BYTES = 64 * 1024 * 1024;
/** Number of bodies of the largest size that always fit, even under a smaller bound. */
const MIN_WHOLE_BODIES = 4;
const FIRST_BYTES = 4 * 1024;
const NOTHING = Buffer.alloc(0);

/**
 * Reads request bodies, and bounds the memory of all incomplete bodies together. Above the bound, the oldest upload is
 * refused. An ordinary upload takes milliseconds, so an upload that is kept open to fill the memory is older.
 */
export class Uploads {
  readonly #maxHeldBytes: number;
  /** Incomplete bodies, oldest first. */
  readonly #unfinished = new Set<Upload>();
  #heldBytes = 0;

  constructor(maxHeldBytes = DEFAULT_MAX_HELD_BYTES) {
    this.#maxHeldBytes = maxHeldBytes;
  }

  /**
   * Reads the whole body as received, without content decoding.
   * @throws GatewayError `body_too_large` above `maxBytes`; `too_many_uploads` if the upload is refused to free memory;
   *   {@link ClientGone} if the client disconnects first
   */
  readBody(incoming: Incoming, maxBytes: number): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      // If the client has disconnected already, no further event will come.
      if (incoming.destroyed) return reject(clientGone());
      // Node has already refused a Content-Length that is not a number, and passes on no more bytes than the header
      // announces.
      const announced = incoming.headers["content-length"];
      const announcedBytes = announced === undefined ? undefined : Number(announced);
      if (announcedBytes !== undefined && announcedBytes > maxBytes) return reject(bodyTooLarge(maxBytes));
      incoming.collect(new Upload({ uploads: this, maxBytes, announcedBytes, resolve, reject }));
    });
  }

  /** Records that an upload holds further bytes. */
  hold(upload: Upload, bytes: number, maxBytes: number): void {
    this.#unfinished.add(upload);
    this.#heldBytes += bytes;
    this.makeRoom(0, maxBytes);
  }

  /** Refuses the oldest uploads until these bytes fit in addition to the bytes of the others. */
  makeRoom(bytes: number, maxBytes: number): void {
    const bound = Math.max(this.#maxHeldBytes, MIN_WHOLE_BODIES * maxBytes);
    for (const oldest of this.#unfinished) {
      if (this.#heldBytes + bytes <= bound) return;
      oldest.giveWay();
    }
  }

  /** Records that an upload no longer holds these bytes. */
  release(upload: Upload, bytes: number): void {
    if (this.#unfinished.delete(upload)) this.#heldBytes -= bytes;
  }
}

interface UploadOptions {
  readonly uploads: Uploads;
  readonly maxBytes: number;
  /** Undefined if the body is chunked. */
  readonly announcedBytes: number | undefined;
  readonly resolve: (body: Uint8Array) => void;
  readonly reject: (reason: Error) => void;
}

/** A body that is still arriving. */
class Upload implements BodySink {
  readonly #options: UploadOptions;
  #buffer: Buffer = NOTHING;
  #size = 0;
  #isOver = false;

  constructor(options: UploadOptions) {
    this.#options = options;
  }

  add(bytes: Buffer): void {
    // Bytes after a refusal are read and dropped, so that the client receives the refusal. The request timeout bounds this.
    if (this.#isOver) return;
    const { maxBytes, announcedBytes } = this.#options;
    if (this.#size + bytes.length > maxBytes) this.#refuse(bodyTooLarge(maxBytes));
    else if (bytes.length === announcedBytes && bytes.buffer.byteLength === announcedBytes) this.#keep(bytes);
    else this.#append(bytes);
  }

  end(): void {
    if (this.#isOver) return;
    this.#options.resolve(
      this.#size === this.#buffer.length ? this.#buffer : this.#buffer.subarray(0, this.#size),
    );
    this.#free();
  }

  fail(cause: Error | null): void {
    if (!this.#isOver) this.#refuse(clientGone(cause));
  }

  giveWay(): void {
    this.#refuse(tooManyUploads());
  }

  /** Keeps a whole body as it is. The body is counted only now, because its end follows at once. */
  #keep(body: Buffer): void {
    this.#buffer = body;
    this.#size = body.length;
    this.#options.uploads.makeRoom(body.length, this.#options.maxBytes);
  }

  /**
   * Copies the bytes into one growing buffer, because a piece of one byte that is kept by itself would take hundreds of
   * bytes.
   */
  #append(bytes: Buffer): void {
    const { uploads, maxBytes, announcedBytes = maxBytes } = this.#options;
    const size = this.#size;
    const before = this.#buffer;
    const needed = size + bytes.length;
    if (needed > before.length) {
      this.#buffer = Buffer.allocUnsafe(Math.min(announcedBytes, Math.max(needed, FIRST_BYTES, 2 * size)));
      before.copy(this.#buffer, 0, 0, size);
    }
    bytes.copy(this.#buffer, size);
    this.#size = needed;
    uploads.hold(this, this.#buffer.length - before.length, maxBytes);
  }

  #refuse(reason: Error): void {
    this.#options.reject(reason);
    this.#free();
  }

  #free(): void {
    this.#isOver = true;
    this.#options.uploads.release(this, this.#buffer.length);
    this.#buffer = NOTHING;
  }
}

function clientGone(cause?: unknown): ClientGone {
  return new ClientGone("The client hung up while sending its body.", { cause });
}

function bodyTooLarge(maxBytes: number): GatewayError {
  return new GatewayError("body_too_large", `The body is larger than the ${maxBytes} bytes allowed here.`);
}

function tooManyUploads(): GatewayError {
  return new GatewayError(
    "too_many_uploads",
    "Too many bodies are arriving at once, and this one has taken longest: send it again soon.",
    { headers: { "retry-after": "1" } },
  );
}
