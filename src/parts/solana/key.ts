import { createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { parseEd25519Key } from "../../core/private-keys.ts";
import { ACCOUNT_BYTES, bytesOf, fromBase58, toBase58 } from "./portable/addresses.ts";

/** Bytes of a key as programs of Solana write it: 32 that are secret, and the account. */
const KEY_BYTES = 64;
/** Characters of base58 that a key can have. */
const BASE58_KEY = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/;

/** Spellings of a key, which complete "expected …". */
export const KEY_FORMS =
  "a key of Solana: 64 bytes in base58, or as the JSON array that solana-keygen writes";

/** A key that signs for an account. */
export class SolanaKey {
  readonly address: string;
  readonly #key: KeyObject;

  constructor(address: string, key: KeyObject) {
    this.address = address;
    this.#key = key;
  }

  sign(message: Uint8Array): Uint8Array<ArrayBuffer> {
    return new Uint8Array(sign(null, message, this.#key));
  }
}

/** Reports whether the key of an account signed a message. */
export function isSignedBy(account: string, message: Uint8Array, signature: Uint8Array): boolean {
  const jwk = { kty: "OKP", crv: "Ed25519", x: Buffer.from(bytesOf(account)).toString("base64url") };
  return verify(null, message, createPublicKey({ key: jwk, format: "jwk" }), signature);
}

/**
 * Reads a key in one of the {@link KEY_FORMS}.
 * @returns undefined for a text that is neither a JSON array nor base58 with the length of a key
 * @throws Error that completes "the key …" and quotes nothing of it
 */
export function readKey(text: string): SolanaKey | undefined {
  const trimmed = text.trim();
  const bytes = trimmed.startsWith("[") ? bytesOfArray(trimmed) : bytesOfBase58(trimmed);
  if (bytes === undefined) return undefined;
  const key = parseEd25519Key(bytes);
  if (key === undefined)
    throw new Error("has an account in its last 32 bytes that is not the account of its first 32 bytes");
  return new SolanaKey(toBase58(bytes.subarray(ACCOUNT_BYTES)), key);
}

function bytesOfArray(text: string): Uint8Array {
  let values: unknown;
  try {
    values = JSON.parse(text);
  } catch {
    throw new Error(`is a JSON array with a mistake; expected ${KEY_BYTES} numbers`);
  }
  const list = values as readonly unknown[];
  if (list.length !== KEY_BYTES)
    throw new Error(`is a JSON array of ${list.length} values; expected ${KEY_BYTES} numbers`);
  if (!list.every((byte) => Number.isInteger(byte) && (byte as number) >= 0 && (byte as number) <= 255))
    throw new Error("is a JSON array of other values than numbers from 0 to 255");
  return Uint8Array.from(list as readonly number[]);
}

function bytesOfBase58(text: string): Uint8Array | undefined {
  return BASE58_KEY.test(text) ? fromBase58(text, KEY_BYTES) : undefined;
}
