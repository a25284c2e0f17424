/** Key of the Standard Webhooks specification. */
export type StandardWebhooksKey =
  /** `whsec_`: shared with the sender, for HMAC-SHA256. */
  | { readonly kind: "symmetric"; readonly bytes: Buffer }
  /** `whpk_`: the sender's ed25519 public key, 32 bytes. */
  | { readonly kind: "public"; readonly bytes: Buffer }
  /** `whsk_`: the sender's ed25519 seed, 32 bytes, without the public key that may follow it. */
  | { readonly kind: "private"; readonly bytes: Buffer };

const PREFIXES = { whsec_: "symmetric", whpk_: "public", whsk_: "private" } as const;

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
