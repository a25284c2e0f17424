import { createHmac, timingSafeEqual } from "node:crypto";
import type { HttpRequest } from "../../http/http-request.ts";

/** Where senders put their signature; each of these that is present must verify. */
const SIGNATURE_HEADERS = ["x-signature-256", "x-hub-signature-256", "x-webhook-signature"] as const;

/** 32 bytes as hex in either case, with or without `sha256=`. */
const SIGNATURE = /^(?:sha256=)?([0-9a-f]{64})$/i;

/** HMAC-SHA256 over the body's bytes exactly as they were received. */
export function hmacSha256(body: Uint8Array, secret: string): Buffer {
  return createHmac("sha256", secret).update(body).digest();
}

/**
 * Whether the request is signed: at least one signature header, and every one that was sent is right.
 * A sender that sends one good and one bad signature is not to be trusted with either.
 */
export function hasHmacSignature(request: HttpRequest, body: Uint8Array, secret: string): boolean {
  const sent = SIGNATURE_HEADERS.flatMap((header) => request.headerValues(header));
  if (sent.length === 0) return false;
  const expected = hmacSha256(body, secret);
  let allVerify = true;
  for (const value of sent) {
    const hex = SIGNATURE.exec(value)?.[1];
    if (hex === undefined || !timingSafeEqual(Buffer.from(hex, "hex"), expected)) allVerify = false;
  }
  return allVerify;
}
