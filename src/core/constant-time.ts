import { hash, timingSafeEqual } from "node:crypto";

/**
 * Compares two secrets by their digests. The time of the comparison therefore depends neither on where the secrets
 * differ nor on their lengths.
 */
export function equalInConstantTime(left: string | Uint8Array, right: string | Uint8Array): boolean {
  return timingSafeEqual(digest(left), digest(right));
}

/** Compares a secret with each secret of a list, in a time that does not show which of them it equals or resembles. */
export function isAnyInConstantTime(sent: string, secrets: readonly string[]): boolean {
  return secrets.map((secret) => equalInConstantTime(sent, secret)).includes(true);
}

function digest(value: string | Uint8Array): Buffer {
  // Hashing to hex takes 0.8 µs. createHash() makes a stream and takes 2 µs.
  return Buffer.from(hash("sha256", value, "hex"));
}
