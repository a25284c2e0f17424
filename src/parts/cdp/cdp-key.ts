import { createPrivateKey, type KeyObject } from "node:crypto";
import { parseEd25519Key } from "../../core/private-keys.ts";

/** Secret key of Coinbase's developer platform (CDP), with the signature algorithm of its tokens. */
export interface CdpKey {
  readonly algorithm: "EdDSA" | "ES256";
  readonly key: KeyObject;
}

/**
 * Parses the secret of a key as CDP shows it: the base64 of an Ed25519 seed and its public key, or a P-256 key in PEM,
 * whose line breaks may be written as `\n`.
 * @returns undefined for any other text
 */
export function parseCdpKey(secret: string): CdpKey | undefined {
  try {
    if (secret.startsWith("-----BEGIN")) {
      const key = createPrivateKey(secret.replaceAll("\\n", "\n"));
      return key.asymmetricKeyDetails?.namedCurve === "prime256v1" ? { algorithm: "ES256", key } : undefined;
    }
    const bytes = Buffer.from(secret, "base64");
    if (bytes.length !== 64 || bytes.toString("base64") !== secret) return undefined;
    const key = parseEd25519Key(bytes);
    return key && { algorithm: "EdDSA", key };
  } catch {
    return undefined;
  }
}
