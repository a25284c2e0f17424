import { randomBytes, sign } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import { version } from "../../node/version.ts";
import { type CdpKey, parseCdpKey } from "./cdp-key.ts";

/** Lifetime that Coinbase documents. */
const LIFETIME_SECS = 120;

/**
 * Makes the headers that the facilitator of Coinbase's developer platform (CDP) requires, with a new token for each request.
 */
export class CdpTokens {
  readonly #keyId: string;
  readonly #key: CdpKey;
  readonly #clock: Clock;

  constructor(parts: { readonly keyId: string; readonly keySecret: string; readonly clock: Clock }) {
    const key = parseCdpKey(parts.keySecret);
    if (key === undefined) throw new Error("key_secret is not a CDP key");
    this.#keyId = parts.keyId;
    this.#key = key;
    this.#clock = parts.clock;
  }

  /** Returns the headers of one request. */
  headers(method: string, { host, pathname }: URL): Readonly<Record<string, string>> {
    const now = Math.floor(this.#clock() / 1000);
    const token = this.#sign({
      sub: this.#keyId,
      iss: "cdp",
      uris: [`${method} ${host}${pathname}`],
      iat: now,
      nbf: now,
      exp: now + LIFETIME_SECS,
    });
    return { authorization: `Bearer ${token}`, "correlation-context": CORRELATION };
  }

  /** Makes a JSON Web Token (RFC 7519). */
  #sign(claims: object): string {
    const { algorithm, key } = this.#key;
    const nonce = randomBytes(16).toString("hex");
    const header = { alg: algorithm, kid: this.#keyId, typ: "JWT", nonce };
    const signed = `${base64Url(header)}.${base64Url(claims)}`;
    const signature =
      algorithm === "EdDSA"
        ? sign(null, Buffer.from(signed), key)
        : sign("sha256", Buffer.from(signed), { key, dsaEncoding: "ieee-p1363" });
    return `${signed}.${signature.toString("base64url")}`;
  }
}

const CORRELATION = `sdk_version=${version},sdk_language=typescript,source=x402,source_version=${version}`;

function base64Url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
