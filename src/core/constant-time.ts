import { createHash, timingSafeEqual } from "node:crypto";

/**
 * Compares two secrets in a time that does not depend on where they differ, nor on how long they are:
 * digests of equal length are what is compared.
 */
export function equalInConstantTime(left: string | Uint8Array, right: string | Uint8Array): boolean {
  return timingSafeEqual(digest(left), digest(right));
}

function digest(value: string | Uint8Array): Buffer {
  return createHash("sha256").update(value).digest();
}
