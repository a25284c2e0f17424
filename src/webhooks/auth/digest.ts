import { createHmac, timingSafeEqual } from "node:crypto";

/** HMAC-SHA256 over all parts, one after the other. */
export function hmacSha256(key: string | Uint8Array, ...parts: readonly (string | Uint8Array)[]): Buffer {
  const hmac = createHmac("sha256", key);
  for (const part of parts) hmac.update(part);
  return hmac.digest();
}

/** Compares a digest that was sent with the right one, in a time that does not depend on where they differ. */
export function equalDigests(sent: Buffer | undefined, expected: Buffer): boolean {
  return sent !== undefined && sent.length === expected.length && timingSafeEqual(sent, expected);
}

/** 32 bytes as hex in either case; undefined for anything else. */
export function digestFromHex(text: string): Buffer | undefined {
  return /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, "hex") : undefined;
}

/** 32 bytes as base64; undefined for anything else. */
export function digestFromBase64(text: string): Buffer | undefined {
  return /^[A-Za-z0-9+/]{43}=$/.test(text) ? Buffer.from(text, "base64") : undefined;
}
