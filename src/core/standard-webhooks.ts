import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { HmacKey } from "./hmac-key.ts";

/** Key of the Standard Webhooks specification. */
type StandardWebhooksKey =
  /** `whsec_`: shared with the sender, for HMAC-SHA256. */
  | { readonly kind: "symmetric"; readonly bytes: Buffer }
  /** `whpk_`: the sender's ed25519 public key, 32 bytes. */
  | { readonly kind: "public"; readonly bytes: Buffer }
  /** `whsk_`: the sender's ed25519 seed, 32 bytes, without the public key that may follow it. */
  | { readonly kind: "private"; readonly bytes: Buffer };

const PREFIXES = { whsec_: "symmetric", whpk_: "public", whsk_: "private" } as const;
/** Shortest shared key that Standard Webhooks recommends. */
export const MIN_SHARED_KEY_BYTES = 24;

/** Parses a key with its prefix. @returns undefined for anything that is not a key of the right length */
export function parseStandardWebhooksKey(text: string): StandardWebhooksKey | undefined {
  const [, prefix, base64] = /^(whsec_|whpk_|whsk_)([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? [];
  if (prefix === undefined || base64 === undefined || base64.replace(/=+$/, "").length % 4 === 1)
    return undefined;
  const kind = PREFIXES[prefix as keyof typeof PREFIXES];
  const bytes = Buffer.from(base64, "base64");
  if (kind === "symmetric") return { kind, bytes };
  if (kind === "public") return bytes.length === 32 ? { kind, bytes } : undefined;
  return bytes.length === 32 || bytes.length === 64 ? { kind, bytes: bytes.subarray(0, 32) } : undefined;
}

/** Key that signs: a shared key, or the sender's private key. */
export type SigningKey = HmacKey | KeyObject;

/** Prepares a key for signing. @returns undefined for a public key, and for text that is not a key */
export function toSigningKey(text: string): SigningKey | undefined {
  const key = parseStandardWebhooksKey(text);
  if (key?.kind === "symmetric") return new HmacKey(key.bytes);
  if (key?.kind !== "private") return undefined;
  return ed25519Key(key.bytes);
}

/** Header of a PKCS #8 key that holds an Ed25519 seed (RFC 8410). */
const ED25519_PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

/** Makes a private key from its seed of 32 bytes. */
function ed25519Key(seed: Uint8Array): KeyObject {
  return createPrivateKey({ key: Buffer.concat([ED25519_PKCS8, seed]), format: "der", type: "pkcs8" });
}

/**
 * Signs `head`, which is `<id>.<timestamp>.`, and the body. Returns one entry of the signature header.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function signStandardWebhook(key: SigningKey, head: string, body: Uint8Array): string {
  if (key instanceof HmacKey) return `v1,${key.sign(body, head).toString("base64")}`;
  return `v1a,${sign(null, Buffer.concat([Buffer.from(head), body]), key).toString("base64")}`;
}
