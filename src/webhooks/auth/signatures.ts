import { timingSafeEqual } from "node:crypto";
import type { WebhookSecret } from "../../config/config.ts";
import { HmacKey } from "../../core/hmac-key.ts";
import { isObject, parseJson } from "../../core/objects.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { Authentic } from "./auth-scheme.ts";

/** A secret as the key of HMAC-SHA256, with its name in the configuration. */
export interface NamedKey {
  readonly name: string;
  readonly key: HmacKey;
}

export function hmacKeys(secrets: readonly WebhookSecret[]): NamedKey[] {
  return secrets.map(({ name, secret }) => ({ name, key: new HmacKey(secret) }));
}

/** Returns the secret or key that the predicate accepts; undefined if it accepts none. */
export function authenticBy<Named extends { readonly name: string }>(
  secrets: readonly Named[],
  accepts: (secret: Named) => boolean,
): Authentic | undefined {
  const [secret] = secrets.filter(accepts);
  return secret && { secretName: secret.name };
}

/** Returns the current secret or key, which senders should use. */
export function firstOf<Named>(secrets: readonly Named[]): Named {
  const [first] = secrets;
  if (first === undefined) throw new Error("an endpoint has no secret");
  return first;
}

/** Returns the value of a header that was sent exactly once and is not empty. `name` is lower case. */
export function singleHeader(request: HttpRequest, name: string): string | undefined {
  const values = request.headerValues(name);
  return values.length === 1 && values[0] !== "" ? values[0] : undefined;
}

/** Compares a received digest with the expected one in constant time. */
export function equalDigests(sent: Buffer | undefined, expected: Buffer): boolean {
  return sent !== undefined && sent.length === expected.length && timingSafeEqual(sent, expected);
}

/** Decodes 32 bytes of hex in either case; returns undefined for anything else. */
export function digestFromHex(text: string): Buffer | undefined {
  return /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, "hex") : undefined;
}

/** Decodes 32 bytes of base64; returns undefined for anything else. */
export function digestFromBase64(text: string): Buffer | undefined {
  return /^[A-Za-z0-9+/]{43}=$/.test(text) ? Buffer.from(text, "base64") : undefined;
}

/**
 * Checks that a signed time in Unix seconds, as a header holds it, is within the tolerance of the present time. A time
 * in the future is also refused, because it would let a captured request be replayed for longer.
 * @param now Unix milliseconds
 */
export function isTimely(seconds: string, now: number, toleranceSecs: number): boolean {
  return /^\d{1,12}$/.test(seconds) && Math.abs(Math.floor(now / 1000) - Number(seconds)) <= toleranceSecs;
}

/** Returns a time as senders sign it, in Unix seconds. */
export function signedTime(now: number): string {
  return String(Math.floor(now / 1000));
}

/** Returns the named text fields at the top of a JSON body, without fields that are missing, empty or not text. */
export function textFields<const Name extends string>(
  body: Uint8Array,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const json = parseJson(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  const object = isObject(json) ? json : {};
  const fields: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = object[name];
    if (typeof value === "string" && value !== "") fields[name] = value;
  }
  return fields;
}
