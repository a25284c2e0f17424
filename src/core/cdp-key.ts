import { createPrivateKey, type KeyObject } from "node:crypto";

/** Header of a PKCS #8 key that holds an Ed25519 seed (RFC 8410). */
const ED25519_PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

/** Secret key of Coinbase's developer platform (CDP), with the signature algorithm of its tokens. */
export interface CdpKey {
  readonly algorithm: "EdDSA" | "ES256";
  readonly key: KeyObject;
}

/**
 * Parses the secret of a key as CDP shows it: the base64 of an Ed25519 seed and its public key, or a P-256 key in PEM,
 * whose line breaks may be written as `\n`.
 * @returns undefined for anything else
 */
export function parseCdpKey(secret: string): CdpKey | undefined {
  try {
    if (secret.startsWith("-----BEGIN")) {
      const key = createPrivateKey(secret.replaceAll("\\n", "\n"));
      return key.asymmetricKeyDetails?.namedCurve === "prime256v1" ? { algorithm: "ES256", key } : undefined;
    }
    const bytes = Buffer.from(secret, "base64");
    if (bytes.length !== 64 || bytes.toString("base64") !== secret) return undefined;
    return { algorithm: "EdDSA", key: ed25519Key(bytes.subarray(0, 32)) };
  } catch {
    return undefined;
  }
}

/** Makes a key of its 32 bytes of seed. */
export function ed25519Key(seed: Uint8Array): KeyObject {
  return createPrivateKey({ key: Buffer.concat([ED25519_PKCS8, seed]), format: "der", type: "pkcs8" });
}
