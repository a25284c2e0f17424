import { MIN_SHARED_KEY_BYTES, parseStandardWebhooksKey } from "../../core/standard-webhooks.ts";
import type { Place } from "../mistakes.ts";
import { type EndpointTable, WEBHOOK_AUTH_MODES, type WebhookAuthMode } from "../webhooks.ts";

/** Checks that an endpoint has the `secret` or `secrets` that its `auth` needs, in the right format. */
export function checkSecrets(endpoint: EndpointTable, place: Place): void {
  const { auth, secret, secrets } = endpoint;
  if (secret !== undefined && secrets !== undefined) {
    place.at("secrets").report("is set together with secret; expected one of the two");
  }
  if (auth === undefined) return;
  const key = secrets === undefined ? "secret" : "secrets";
  if (auth === "none") {
    if (secret !== undefined || secrets !== undefined) {
      place.at(key).report(`is never used, since auth is "none"; expected another auth, or no ${key}`);
    }
    return;
  }
  if (secrets !== undefined) {
    checkList(secrets, auth, place.at("secrets"));
  } else if (secret === undefined) {
    if (!place.at("secrets").isReported)
      place.at("secret").reportMissing(`is missing; expected it, since auth is "${auth}"`);
  } else {
    checkFormat(secret, auth, place.at("secret"));
  }
}

function checkList(
  secrets: NonNullable<EndpointTable["secrets"]>,
  auth: WebhookAuthMode,
  place: Place,
): void {
  const names = new Set<string>();
  for (const [i, item] of secrets.entries()) {
    if (typeof item === "string") {
      checkFormat(item, auth, place.at(i));
    } else if (item !== undefined) {
      if (item.secret !== undefined) checkFormat(item.secret, auth, place.at(i, "secret"));
      if (item.name === undefined) continue;
      if (names.has(item.name)) {
        place.at(i, "name").report("is the name of another secret; expected each name once");
      }
      names.add(item.name);
    }
  }
}

function checkFormat(secret: string, auth: WebhookAuthMode, place: Place): void {
  switch (WEBHOOK_AUTH_MODES[auth].secretFormat) {
    case "none":
      return;
    case "text":
      warnIfShort(secret, place);
      return;
    case "header":
      if (/^[\x21-\x7e]+$/.test(secret)) {
        warnIfShort(secret, place);
      } else {
        place.report(
          `cannot be sent in a header, as auth "${auth}" does; expected visible ASCII characters, without spaces and line breaks`,
        );
      }
      return;
    case "segment":
      if (!/^[A-Za-z0-9._~-]+$/.test(secret) || secret === "." || secret === "..") {
        place.report("cannot be a path segment; expected letters, digits, and . _ ~ - only");
      } else {
        warnIfShort(secret, place);
      }
      return;
    case "key": {
      const key = parseStandardWebhooksKey(secret);
      if (key?.kind === "public") return;
      if (key?.kind === "symmetric") {
        const { length } = key.bytes;
        if (length < MIN_SHARED_KEY_BYTES)
          place.warn(`is ${length} bytes long; expected ${MIN_SHARED_KEY_BYTES} random ones or more`);
        return;
      }
      place.report(
        key?.kind === "private"
          ? "is the sender's private key, which only the sender may have; expected its public key, whpk_ and base64"
          : "is not a Standard Webhooks key; expected whsec_ and base64, or whpk_ and the base64 of an ed25519 public key",
      );
    }
  }
}

/** Warns of short secrets, because they can be guessed. Some can be guessed from a single signed request. */
function warnIfShort(secret: string, place: Place): void {
  if (secret.length < 16)
    place.warn(
      `has ${secret.length} characters and is the only protection of this path; expected 32 random characters or more`,
    );
}
