import { varintBytes, writeU64, writeVarint } from "../../delivery/job-call-codec.ts";
import type { LeaseStatuses } from "../../delivery/lease-requests.ts";
import type { LeaseAck } from "../../delivery/runner-requests.ts";

/*
 * The frequent messages of Work are read and written by hand, because protobuf-es reads the schema each time and takes ten
 * times as long. https://protobuf.dev/programming-guides/encoding/
 */

/** Tags: field number and wire type. */
const VARINT = 0;
const LENGTH_DELIMITED = 2;
const SEQUENCE = (3 << 3) | VARINT;
const ACKS = (4 << 3) | LENGTH_DELIMITED;
const CALL_ID = (1 << 3) | VARINT;
const LEASE_TOKEN = (2 << 3) | LENGTH_DELIMITED;
const RESULT = (3 << 3) | LENGTH_DELIMITED;
const RESULT_BODY = (1 << 3) | LENGTH_DELIMITED;
const RESULT_CONTENT_TYPE = (2 << 3) | LENGTH_DELIMITED;
const STATUSES = (2 << 3) | LENGTH_DELIMITED;
const STATUSES_SEQUENCE = (1 << 3) | VARINT;
const STATUSES_ACKS = (2 << 3) | LENGTH_DELIMITED;
const STATUSES_NACKS = (3 << 3) | LENGTH_DELIMITED;
const STATUSES_EXTENDS = (4 << 3) | LENGTH_DELIMITED;

const EMPTY = new Uint8Array(0);

/** RunnerMessage that has only acks. */
interface AckMessage {
  readonly sequence: bigint;
  readonly acks: LeaseAck[];
}

/** Error for a message that this reader cannot read. */
const UNUSUAL = new Error("Not a plain message of acks");

/** Reads a RunnerMessage of acks. @returns undefined for other bytes, whether they are a RunnerMessage or not */
export function decodeAcks(bytes: Buffer): AckMessage | undefined {
  try {
    return readAckMessage(new WireReader(bytes, 0, bytes.byteLength));
  } catch (error) {
    if (error === UNUSUAL) return undefined;
    throw error;
  }
}

function readAckMessage(reader: WireReader): AckMessage {
  let sequence = 0n;
  const acks: AckMessage["acks"] = [];
  while (!reader.isAtEnd) {
    const tag = reader.byte();
    if (tag === ACKS) acks.push(readAck(reader.part()));
    else if (tag === SEQUENCE) sequence = BigInt(reader.number());
    else throw UNUSUAL;
  }
  return { sequence, acks };
}

function readAck(reader: WireReader): LeaseAck {
  let callId = 0;
  let leaseToken = "";
  let result: LeaseAck["result"];
  while (!reader.isAtEnd) {
    const tag = reader.byte();
    if (tag === CALL_ID) callId = reader.number();
    else if (tag === LEASE_TOKEN) leaseToken = reader.text();
    // A second result would be merged with the first.
    else if (tag === RESULT && result === undefined) result = readResult(reader.part());
    else throw UNUSUAL;
  }
  return { callId: BigInt(callId), leaseToken, result };
}

function readResult(reader: WireReader): NonNullable<LeaseAck["result"]> {
  let body: Uint8Array = EMPTY;
  let contentType = "";
  while (!reader.isAtEnd) {
    const tag = reader.byte();
    if (tag === RESULT_BODY) body = reader.bytes();
    else if (tag === RESULT_CONTENT_TYPE) contentType = reader.text();
    else throw UNUSUAL;
  }
  return { body, contentType };
}

/** Reads a part of a message. Its methods throw {@link UNUSUAL} at the end of the part, and for rare values. */
class WireReader {
  readonly #bytes: Buffer;
  readonly #end: number;
  #at: number;

  constructor(bytes: Buffer, start: number, end: number) {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#end;
  }

  byte(): number {
    if (this.#at === this.#end) throw UNUSUAL;
    return this.#bytes[this.#at++] as number;
  }

  /** Reads a varint below 2^49, which is seven bytes long. */
  number(): number {
    let value = 0;
    for (let unit = 1; unit < 2 ** 49; unit *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * unit;
      if (byte < 0x80) return value;
    }
    throw UNUSUAL;
  }

  part(): WireReader {
    const start = this.#skip();
    return new WireReader(this.#bytes, start, this.#at);
  }

  bytes(): Uint8Array {
    const start = this.#skip();
    return this.#bytes.subarray(start, this.#at);
  }

  /** Reads ASCII. Other text is left to protobuf-es, which checks that it is UTF-8. */
  text(): string {
    const start = this.#skip();
    for (let at = start; at < this.#at; at++) if ((this.#bytes[at] as number) >= 0x80) throw UNUSUAL;
    return this.#bytes.toString("latin1", start, this.#at);
  }

  /** Skips the next length-delimited value. @returns its start */
  #skip(): number {
    const length = this.number();
    const start = this.#at;
    if (length > this.#end - start) throw UNUSUAL;
    this.#at = start + length;
    return start;
  }
}

/** Encodes a GatewayMessage of one Statuses. Each status must be below 128. */
export function encodeStatuses(
  sequence: bigint,
  { acks, nacks, extends: extensions }: LeaseStatuses,
): Buffer {
  const lists = [
    [STATUSES_ACKS, acks],
    [STATUSES_NACKS, nacks],
    [STATUSES_EXTENDS, extensions],
  ] as const;
  // A tag, and at most ten bytes of a varint.
  let maxBytes = 11;
  for (const [, statuses] of lists) maxBytes += 11 + statuses.length;
  const message = Buffer.allocUnsafe(maxBytes);
  let end = sequence === 0n ? 0 : writeU64(message, STATUSES_SEQUENCE, sequence, 0);
  for (const [tag, statuses] of lists) {
    if (statuses.length === 0) continue;
    message[end] = tag;
    end = writeVarint(message, statuses.length, end + 1);
    for (const status of statuses) message[end++] = status;
  }
  const field = Buffer.allocUnsafe(1 + varintBytes(end) + end);
  field[0] = STATUSES;
  message.copy(field, writeVarint(field, end, 1), 0, end);
  return field;
}
