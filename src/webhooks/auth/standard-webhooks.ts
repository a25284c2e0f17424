import { createPublicKey, type KeyObject, verify } from "node:crypto";
import type { WebhookSecret } from "../../config/config.ts";
import { HmacKey } from "../../core/hmac-key.ts";
import { parseStandardWebhooksKey, signStandardWebhook, toSigningKey } from "../../core/standard-webhooks.ts";
import { type AuthScheme, CannotSign, SigningKeyMissing } from "./auth-scheme.ts";
import { digestFromBase64, equalDigests, isTimely, signedTime, singleHeader } from "./signatures.ts";

/** Most signatures of all versions in one header. A sender sends one for each valid key. */
const MAX_SIGNATURES = 16;
/**
 * Most ed25519 signatures in one header. For each signature, the body is hashed again for each key, so a stranger's
 * long list would cost much.
 */
const MAX_PUBLIC_KEY_SIGNATURES = 4;
/** DER bytes before the 32 bytes of an ed25519 public key (RFC 8410). */
const PUBLIC_KEY_DER = Buffer.from("302a300506032b6570032100", "hex");

type VerifyingKey =
  | { readonly name: string; readonly version: "v1"; readonly key: HmacKey }
  | { readonly name: string; readonly version: "v1a"; readonly key: KeyObject };

/**
 * `standard-webhooks` and `svix`: `<prefix>-signature` is a blank-separated list of `v1,<base64>` (HMAC-SHA256) and
 * `v1a,<base64>` (ed25519) over `<id>.<timestamp>.<body>`. Other versions are ignored. `svix` is the same scheme under
 * its earlier header names.
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 * https://docs.svix.com/receiving/verifying-payloads/how-manual
 */
export function standardWebhooks(
  secrets: readonly WebhookSecret[],
  toleranceSecs: number,
  prefix: "webhook" | "svix",
): AuthScheme {
  const keys = secrets.map(toVerifyingKey);
  const idHeader = `${prefix}-id`;
  return {
    authenticate(request, body, now) {
      const id = singleHeader(request, idHeader) ?? "";
      const time = singleHeader(request, `${prefix}-timestamp`) ?? "";
      const list = (singleHeader(request, `${prefix}-signature`) ?? "").split(" ", MAX_SIGNATURES + 1);
      if (isTooLong(list) || !isUnambiguous(id) || !isTimely(time, now, toleranceSecs)) return undefined;
      const used = keys.find((key) => isSigned(`${id}.${time}.`, body, list, key));
      return used && { secretName: used.name };
    },
    signsBody: true,
    deliveryId: { header: idHeader, isSigned: true, find: (request) => singleHeader(request, idHeader) },
    sign(body, { now, deliveryId, signingKey }) {
      if (!isUnambiguous(deliveryId)) {
        throw new CannotSign(
          "the delivery id is empty, or contains a dot and digits, which could pass for the time; expected an id without dots",
        );
      }
      const time = signedTime(now);
      return {
        [idHeader]: deliveryId,
        [`${prefix}-timestamp`]: time,
        [`${prefix}-signature`]: signatureOf(`${deliveryId}.${time}.`, body, keys, signingKey),
      };
    },
  };
}

function isTooLong(list: readonly string[]): boolean {
  const withPublicKeys = list.filter((item) => item.startsWith("v1a,"));
  return list.length > MAX_SIGNATURES || withPublicKeys.length > MAX_PUBLIC_KEY_SIGNATURES;
}

/**
 * Returns true if no other ID, time and body give the same signed text. A dot and digits in the ID could be mistaken for the
 * time.
 */
function isUnambiguous(id: string): boolean {
  return id !== "" && !/\.\d+(?:\.|$)/.test(id);
}

function isSigned(head: string, body: Uint8Array, list: readonly string[], key: VerifyingKey): boolean {
  const sent = list.flatMap((item) =>
    item.startsWith(`${key.version},`) ? [item.slice(key.version.length + 1)] : [],
  );
  if (sent.length === 0) return false;
  if (key.version === "v1") {
    const expected = key.key.sign(body, head);
    return sent.some((base64) => equalDigests(digestFromBase64(base64), expected));
  }
  const signed = Buffer.concat([Buffer.from(head), body]);
  return sent.some(
    (base64) =>
      /^[A-Za-z0-9+/]{86}==$/.test(base64) && verify(null, signed, key.key, Buffer.from(base64, "base64")),
  );
}

function signatureOf(
  head: string,
  body: Uint8Array,
  keys: readonly VerifyingKey[],
  signingKey: string | undefined,
): string {
  if (signingKey !== undefined) {
    const own = toSigningKey(signingKey);
    if (own === undefined || own instanceof HmacKey)
      throw new SigningKeyMissing("the signing key is not whsk_ and base64");
    return signStandardWebhook(own, head, body);
  }
  const shared = keys.find((key) => key.version === "v1");
  if (shared === undefined) {
    throw new SigningKeyMissing("the endpoint knows only the public key; the sender's private key signs");
  }
  return signStandardWebhook(shared.key, head, body);
}

function toVerifyingKey({ name, secret }: WebhookSecret): VerifyingKey {
  const key = parseStandardWebhooksKey(secret);
  if (key?.kind === "symmetric") return { name, version: "v1", key: new HmacKey(key.bytes) };
  if (key?.kind !== "public") throw new Error(`${name} is neither a whsec_ nor a whpk_ key`);
  const der = Buffer.concat([PUBLIC_KEY_DER, key.bytes]);
  return { name, version: "v1a", key: createPublicKey({ key: der, format: "der", type: "spki" }) };
}
