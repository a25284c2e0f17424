import { keccak } from "hash-wasm";
import { hashMessage, recoverAddress } from "viem";
import type { JobKey } from "../../core/job-call.ts";

/** Half of the secp256k1 group order: of the two signatures that say the same, only the one with s up to here is taken. */
const MAX_LOW_S = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

/** What a delegated caller signs. */
export interface CallerClaim extends JobKey {
  readonly body: Uint8Array;
  /** 1 to 128 visible ASCII characters. */
  readonly nonce: string;
  /** Unix seconds, as the decimal that was sent. */
  readonly expiry: string;
}

/**
 * The text that a caller's wallet signs: `x402-authorize:{service_id}:{job_index}:{body_hash}:{nonce}:{expiry_unix_secs}`,
 * with the keccak-256 of the body in hex without `0x`.
 */
export async function callerClaimText(claim: CallerClaim): Promise<string> {
  const { serviceId, jobIndex, body, nonce, expiry } = claim;
  // In WebAssembly: viem's takes 75 ms for a body of 1 MiB, and everyone else would wait.
  return `x402-authorize:${serviceId}:${jobIndex}:${await keccak(body, 256)}:${nonce}:${expiry}`;
}

/** The EIP-191 hash of {@link callerClaimText}: what the signature is over. */
export async function callerClaimHash(claim: CallerClaim): Promise<`0x${string}`> {
  return hashMessage(await callerClaimText(claim));
}

/** Reads hex with or without `0x`; undefined when it is not hex of whole bytes, or far too long. */
export function parseSignatureHex(text: string): `0x${string}` | undefined {
  const digits = /^(?:0x)?((?:[0-9a-fA-F]{2}){1,4096})$/.exec(text)?.[1];
  return digits === undefined ? undefined : `0x${digits.toLowerCase()}`;
}

/** Whether a plain account can have signed so: 65 bytes, v of 27, 28, 0 or 1, and a low s. */
export function isAccountSignature(signature: `0x${string}`): boolean {
  if (signature.length !== 2 + 130) return false;
  const s = BigInt(`0x${signature.slice(66, 130)}`);
  const v = Number.parseInt(signature.slice(130), 16);
  return [0, 1, 27, 28].includes(v) && s > 0n && s <= MAX_LOW_S;
}

/** The plain account that signed, lower case; undefined when none can have. */
export async function recoverSigner(
  hash: `0x${string}`,
  signature: `0x${string}`,
): Promise<string | undefined> {
  if (!isAccountSignature(signature)) return undefined;
  try {
    return (await recoverAddress({ hash, signature })).toLowerCase();
  } catch {
    return undefined;
  }
}
