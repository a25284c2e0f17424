import type { IncomingMessage } from "node:http";
import { GatewayError } from "../core/errors.ts";

/** Thrown when the client hangs up before its request is complete: no answer can reach it. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

const DEFAULT_MAX_HELD_BYTES = 64 * 1024 * 1024;
/** Bodies of the largest size that fit however small the bound is. */
const MIN_WHOLE_BODIES = 4;
const FIRST_BYTES = 4 * 1024;
const NOTHING = Buffer.alloc(0);

/** A body that is still arriving. */
interface Upload {
  buffer: Buffer;
  size: number;
  readonly giveWay: () => void;
}

/**
 * Reads request bodies, and bounds the memory of all incomplete ones together. Above the bound the oldest upload is
 * refused: an honest one takes milliseconds, so one that is kept open to fill the memory is older than all of these.
 */
export class Uploads {
  readonly #maxHeldBytes: number;
  /** Oldest first. */
  readonly #unfinished = new Set<Upload>();
  #heldBytes = 0;

  constructor(maxHeldBytes = DEFAULT_MAX_HELD_BYTES) {
    this.#maxHeldBytes = maxHeldBytes;
  }

  /**
   * Reads the whole body as received, without content decoding.
   * @throws GatewayError `body_too_large` above `maxBytes`; `too_many_uploads` when it is refused to free memory;
   *   {@link ClientGone} if the client hangs up first
   */
  readBody(incoming: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      // A client that hung up before this has already caused its last event.
      if (incoming.destroyed) return reject(clientGone());
      // Node has already refused a Content-Length that is not a number, and passes on no more bytes than it says.
      const announced = incoming.headers["content-length"];
      if (Number(announced ?? 0) > maxBytes) return reject(bodyTooLarge(maxBytes));

      const lengthBound = announced === undefined ? maxBytes : Number(announced);
      const settle = (finish: () => void) => {
        if (!this.#unfinished.has(upload)) return;
        finish();
        this.#release(upload);
      };
      const upload: Upload = {
        buffer: NOTHING,
        size: 0,
        giveWay: () => settle(() => reject(tooManyUploads())),
      };
      this.#unfinished.add(upload);
      incoming.on("data", (chunk: Buffer) => {
        // Bytes after a refusal are read and dropped so that the client gets to see it; the request time-out bounds that.
        if (!this.#unfinished.has(upload)) return;
        if (upload.size + chunk.length > maxBytes) return settle(() => reject(bodyTooLarge(maxBytes)));
        this.#append(upload, chunk, lengthBound);
        this.#makeRoom(maxBytes);
      });
      incoming.on("end", () => settle(() => resolve(upload.buffer.subarray(0, upload.size))));
      incoming.on("error", (cause) => settle(() => reject(clientGone(cause))));
      incoming.on("close", () => settle(() => reject(clientGone())));
    });
  }

  /** Copies the chunk into one growing buffer: kept by itself, a chunk of one byte would take hundreds. */
  #append(upload: Upload, chunk: Buffer, lengthBound: number): void {
    const { size } = upload;
    const needed = size + chunk.length;
    if (needed > upload.buffer.length) {
      const grown = Buffer.allocUnsafe(Math.min(lengthBound, Math.max(needed, FIRST_BYTES, 2 * size)));
      upload.buffer.copy(grown, 0, 0, size);
      this.#heldBytes += grown.length - upload.buffer.length;
      upload.buffer = grown;
    }
    chunk.copy(upload.buffer, size);
    upload.size = needed;
  }

  #release(upload: Upload): void {
    this.#unfinished.delete(upload);
    this.#heldBytes -= upload.buffer.length;
    upload.buffer = NOTHING;
  }

  #makeRoom(maxBytes: number): void {
    const bound = Math.max(this.#maxHeldBytes, MIN_WHOLE_BODIES * maxBytes);
    for (const oldest of this.#unfinished) {
      if (this.#heldBytes <= bound) return;
      oldest.giveWay();
    }
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
