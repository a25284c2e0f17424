import type { IncomingMessage } from "node:http";
import { GatewayError } from "../core/errors.ts";

/** The client hung up before its request was complete: there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

/** The bodies that are still arriving, which together are held in bounded memory. */
export interface Uploads {
  /**
   * The whole body, as received (no content decoding).
   * @throws GatewayError `body_too_large` above `maxBytes`; `too_many_uploads` when this one has to give way;
   *   {@link ClientGone} if the client hangs up first
   */
  readBody(incoming: IncomingMessage, maxBytes: number): Promise<Uint8Array>;
}

const DEFAULT_MAX_HELD_BYTES = 64 * 1024 * 1024;
/** However small the bound is, some bodies of the largest size fit. */
const MIN_WHOLE_BODIES = 4;
const FIRST_BYTES = 4 * 1024;
const NOTHING = Buffer.alloc(0);

/**
 * @param maxHeldBytes of all bodies that are not complete yet. Above it the one that began first gives way: an honest
 *   upload takes milliseconds, and one that is kept open to fill the memory is older than all of these.
 */
export function createUploads(maxHeldBytes = DEFAULT_MAX_HELD_BYTES): Uploads {
  /** In the order in which they began. */
  const unfinished = new Set<Upload>();
  let heldBytes = 0;

  interface Upload {
    buffer: Buffer;
    readonly giveWay: () => void;
  }

  /** Pieces are copied together: each by itself, of a byte as it may be, would take hundreds. */
  function append(upload: Upload, size: number, chunk: Buffer, lengthBound: number): void {
    const needed = size + chunk.length;
    if (needed > upload.buffer.length) {
      const grown = Buffer.allocUnsafe(Math.min(lengthBound, Math.max(needed, FIRST_BYTES, 2 * size)));
      upload.buffer.copy(grown, 0, 0, size);
      heldBytes += grown.length - upload.buffer.length;
      upload.buffer = grown;
    }
    chunk.copy(upload.buffer, size);
  }

  function release(upload: Upload): void {
    unfinished.delete(upload);
    heldBytes -= upload.buffer.length;
    upload.buffer = NOTHING;
  }

  function makeRoom(maxBytes: number): void {
    const bound = Math.max(maxHeldBytes, MIN_WHOLE_BODIES * maxBytes);
    for (const oldest of unfinished) {
      if (heldBytes <= bound) return;
      oldest.giveWay();
    }
  }

  return {
    readBody: (incoming, maxBytes) =>
      new Promise((resolve, reject) => {
        const gone = (cause?: unknown) =>
          new ClientGone("The client hung up while sending its body.", { cause });
        const tooLarge = () =>
          new GatewayError("body_too_large", `The body is larger than the ${maxBytes} bytes allowed here.`);
        // A client that hung up before anyone read has already caused its last event.
        if (incoming.destroyed) return reject(gone());
        // Node has already refused a Content-Length that is not a number, and sends on no more than it says.
        const announced = incoming.headers["content-length"];
        if (Number(announced ?? 0) > maxBytes) return reject(tooLarge());

        const lengthBound = announced === undefined ? maxBytes : Number(announced);
        let size = 0;
        const settle = (finish: () => void) => {
          if (!unfinished.has(upload)) return;
          finish();
          release(upload);
        };
        const upload: Upload = {
          buffer: NOTHING,
          giveWay: () => settle(() => reject(tooManyUploads())),
        };
        unfinished.add(upload);
        incoming.on("data", (chunk: Buffer) => {
          // What comes after a refusal is read and dropped, so that the client gets to see it; the request time-out
          // bounds that.
          if (!unfinished.has(upload)) return;
          if (size + chunk.length > maxBytes) return settle(() => reject(tooLarge()));
          append(upload, size, chunk, lengthBound);
          size += chunk.length;
          makeRoom(maxBytes);
        });
        incoming.on("end", () => settle(() => resolve(upload.buffer.subarray(0, size))));
        incoming.on("error", (cause) => settle(() => reject(gone(cause))));
        incoming.on("close", () => settle(() => reject(gone())));
      }),
  };
}

function tooManyUploads(): GatewayError {
  return new GatewayError(
    "too_many_uploads",
    "Too many bodies are arriving at once, and this one has taken longest: send it again soon.",
    { headers: { "retry-after": "1" } },
  );
}
