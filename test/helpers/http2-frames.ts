import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** HTTP/2 frames made by hand (RFC 9113 §4.1), to send what no library sends. */
const FRAME_TYPES = { headers: 1, resetStream: 3, settings: 4, goAway: 7, continuation: 9 } as const;
const END_HEADERS = 4;
const CANCEL = 8;
const MAX_FRAME_BYTES = 16_384;
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

function frame(
  type: keyof typeof FRAME_TYPES,
  streamId: number,
  payload: Buffer = Buffer.alloc(0),
  flags = 0,
): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header.writeUInt8(FRAME_TYPES[type], 3);
  header.writeUInt8(flags, 4);
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, payload]);
}

/** Encodes headers without a dynamic table and without Huffman codes (RFC 7541 §6.2.2). */
function headerBlock(headers: Readonly<Record<string, string>>): Buffer {
  const text = (value: string) => Buffer.concat([lengthOf(value), Buffer.from(value)]);
  return Buffer.concat(
    Object.entries(headers).flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]),
  );
}

/** Encodes a length as an integer with a 7-bit prefix (RFC 7541 §5.1). */
function lengthOf({ length }: string): Buffer {
  if (length < 127) return Buffer.from([length]);
  const bytes = [127];
  let rest = length - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

/** Makes the frames that begin a gRPC call. */
export function callFrames(
  streamId: number,
  path: string,
  metadata: Readonly<Record<string, string>> = {},
): Buffer {
  const block = headerBlock({
    ":method": "POST",
    ":scheme": "http",
    ":path": path,
    ":authority": "test",
    "content-type": "application/grpc",
    te: "trailers",
    ...metadata,
  });
  const frames: Buffer[] = [];
  for (let start = 0; start < block.length; start += MAX_FRAME_BYTES) {
    const part = block.subarray(start, start + MAX_FRAME_BYTES);
    const isLast = start + MAX_FRAME_BYTES >= block.length;
    frames.push(frame(start === 0 ? "headers" : "continuation", streamId, part, isLast ? END_HEADERS : 0));
  }
  return Buffer.concat(frames);
}

/** A connection that speaks HTTP/2 frame by frame. */
export class FrameConnection {
  readonly #socket;
  #received = Buffer.alloc(0);
  /** Resolves once the connection is gone, with the last GOAWAY's error code if there was one. */
  readonly closed: Promise<number | undefined>;

  constructor(address: string) {
    const [host = "", port = ""] = address.split(":");
    this.#socket = connect(Number(port), host);
    // A reset is how a server hangs up on a client that still sends.
    this.#socket.on("error", () => undefined);
    this.#socket.on("data", (bytes) => {
      this.#received = Buffer.concat([this.#received, bytes]);
    });
    this.closed = new Promise((resolve) => {
      this.#socket.once("close", () => resolve(this.#goAwayCode()));
    });
    this.#socket.write(Buffer.concat([PREFACE, frame("settings", 0)]));
  }

  get isOpen(): boolean {
    return this.#socket.writable;
  }

  /** Resolves once the bytes are out, or the connection is gone. */
  async send(bytes: Uint8Array): Promise<void> {
    const written = new Promise<void>((resolve) => this.#socket.write(bytes, () => resolve()));
    await Promise.race([written, this.closed]);
  }

  close(): void {
    this.#socket.destroy();
  }

  #goAwayCode(): number | undefined {
    let code: number | undefined;
    for (let at = 0; at + 9 <= this.#received.length; at += 9 + this.#received.readUIntBE(at, 3)) {
      if (this.#received[at + 3] === FRAME_TYPES.goAway) code = this.#received.readUInt32BE(at + 13);
    }
    return code;
  }
}

const AT_ONCE = 250;

/**
 * Opens streams and resets each at once. Opens another connection whenever the server ends one.
 * @param waitMs time in which the server may still end the last one
 * @returns GOAWAY codes of the connections that the server ended
 */
export async function resetStreams(
  address: string,
  path: string,
  count: number,
  waitMs = 500,
): Promise<unknown[]> {
  const codes: unknown[] = [];
  let sent = 0;
  while (sent < count) {
    const connection = new FrameConnection(address);
    for (let id = 1; sent < count && connection.isOpen; sent += AT_ONCE) {
      const frames: Buffer[] = [];
      for (let i = 0; i < AT_ONCE; i++, id += 2)
        frames.push(callFrames(id, path), frame("resetStream", id, Buffer.from([0, 0, 0, CANCEL])));
      await connection.send(Buffer.concat(frames));
    }
    // The last bytes may still be on their way to the server, or its end of the connection to here.
    const isEnded = await Promise.race([connection.closed.then(() => true), sleep(waitMs)]);
    if (isEnded === true) codes.push(await connection.closed);
    connection.close();
  }
  return codes;
}
