import { createHash, timingSafeEqual } from "node:crypto";

/**
 * Compares two secrets in a time that depends neither on where they differ nor on their lengths, because it compares
 * their digests.
 */
export function equalInConstantTime(left: string | Uint8Array, right: string | Uint8Array): boolean {
  return timingSafeEqual(digest(left), digest(right));
}

function digest(value: string | Uint8Array): Buffer {
  return createHash("sha256").update(value).digest();
}
