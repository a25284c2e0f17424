import { createHash } from "node:crypto";
import { ACCOUNT_BYTES, toBase58 } from "./portable/addresses.ts";

export const SIGNATURE_BYTES = 64;
/** The largest transaction that the network carries. */
const MAX_BYTES = 1_232;
/** Characters of base64 that the largest transaction has. */
export const MAX_BASE64_LENGTH = Math.ceil(MAX_BYTES / 3) * 4;

export interface Instruction {
  readonly program: string;
  /** Addresses, in order. */
  readonly accounts: readonly string[];
  readonly data: Uint8Array;
}

/** A transaction of version 0 without address lookup tables. */
export interface Transaction {
  /** The bytes that are signed. */
  readonly message: Uint8Array;
  /** SHA-256 of the message, hex. A message lands once. */
  readonly messageHash: string;
  /** One for each signer, in order; all zero for a missing signature. */
  readonly signatures: readonly Uint8Array[];
  /** The signers come first, and the fee payer is the first of them. */
  readonly accounts: readonly string[];
  readonly blockhash: string;
  readonly instructions: readonly Instruction[];
}

/** Returns the hash of the message of any transaction, whatever else it has. @throws Error when it has no message */
export function messageHashOf(bytes: Uint8Array): string {
  const reader = new Reader(bytes);
  reader.list(() => reader.take(SIGNATURE_BYTES));
  return createHash("sha256").update(reader.rest()).digest("hex");
}

/** Parses a transaction as the network carries it. @throws Error that completes "is not a transaction: …" */
export function parseTransaction(bytes: Uint8Array): Transaction {
  if (bytes.length > MAX_BYTES) throw new Error(`it has over ${MAX_BYTES} bytes`);
  const reader = new Reader(bytes);
  const signatures = reader.list(() => reader.take(SIGNATURE_BYTES));
  const message = reader.rest();
  if (reader.byte() !== 0x80) throw new Error("its version is not 0");
  const signers = reader.byte();
  if (signers !== signatures.length) throw new Error("it has another number of signatures than of signers");
  reader.take(2);
  const accounts = reader.list(() => toBase58(reader.take(ACCOUNT_BYTES)));
  if (signers > accounts.length) throw new Error("it has more signers than accounts");
  if (new Set(accounts).size !== accounts.length) throw new Error("it names an account twice");
  const blockhash = toBase58(reader.take(ACCOUNT_BYTES));
  const account = () => {
    const found = accounts[reader.byte()];
    if (found === undefined) throw new Error("an instruction names an account that it lacks");
    return found;
  };
  const instructions = reader.list(() => ({
    program: account(),
    accounts: reader.list(account),
    data: reader.take(reader.length()),
  }));
  if (reader.length() !== 0) throw new Error("it has address lookup tables");
  if (reader.rest().length > 0) throw new Error("it has bytes after its end");
  return { message, messageHash: messageHashOf(bytes), signatures, accounts, blockhash, instructions };
}

/** Reads values one after another. @throws Error when they end early */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  take(length: number): Uint8Array {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new Error("it ends early");
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }

  byte(): number {
    return this.take(1)[0] as number;
  }

  /** Returns what is left, and stays where it is. */
  rest(): Uint8Array {
    return this.#bytes.subarray(this.#at);
  }

  /** Reads a length in its only spelling: 7 bits a byte, the lowest first. Nothing in a transaction needs three bytes. */
  length(): number {
    const low = this.byte();
    if (low < 0x80) return low;
    const high = this.byte();
    if (high === 0 || high >= 0x80) throw new Error("a length is misspelled");
    return (low & 0x7f) | (high << 7);
  }

  list<T>(read: () => T): T[] {
    return Array.from({ length: this.length() }, read);
  }
}
