import { recoverAddress } from "./recover-address.ts";

/** Half of the secp256k1 group order. Every signature has a twin with a high s. Only the signature with the low s is valid. */
const MAX_LOW_S = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

/**
 * Checks that a plain account can have made this signature. The signature must have 65 bytes, a v of 27, 28, 0 or 1,
 * and a low s.
 */
export function isAccountSignature(signature: `0x${string}`): boolean {
  if (signature.length !== 2 + 130) return false;
  const s = BigInt(`0x${signature.slice(66, 130)}`);
  const v = Number.parseInt(signature.slice(130), 16);
  return [0, 1, 27, 28].includes(v) && s > 0n && s <= MAX_LOW_S;
}

/** Returns the address of the account that signed, lower case; undefined if no account can have made the signature. */
export async function recoverSigner(
  hash: `0x${string}`,
  signature: `0x${string}`,
): Promise<string | undefined> {
  if (!isAccountSignature(signature)) return undefined;
  try {
    return await recoverAddress({ hash, signature });
  } catch {
    return undefined;
  }
}

/** Reads hex with or without `0x`. Returns undefined for text that is not hex of whole bytes, or is far too long. */
export function parseSignatureHex(text: string): `0x${string}` | undefined {
  const digits = /^(?:0x)?((?:[0-9a-fA-F]{2}){1,4096})$/.exec(text)?.[1];
  return digits === undefined ? undefined : `0x${digits.toLowerCase()}`;
}
