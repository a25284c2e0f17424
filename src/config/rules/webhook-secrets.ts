import { parseStandardWebhooksKey } from "../../core/standard-webhooks-key.ts";
import type { KeyPath } from "../mistake.ts";
import type { MistakeList } from "../mistake-list.ts";
import { WEBHOOK_AUTH_MODES, type WebhookAuthMode } from "../webhook-auth-modes.ts";
import type { EndpointTable } from "./webhook-tables.ts";

/** Each is tried for each request. */
const MAX_SECRETS = 8;
/** What Standard Webhooks asks of a shared key. */
const MIN_SHARED_KEY_BYTES = 24;

/** What an endpoint's `auth` asks of its `secret` or `secrets`. */
export function checkSecrets(endpoint: EndpointTable, path: KeyPath, mistakes: MistakeList): void {
  const { auth, secret, secrets } = endpoint;
  if (secret !== undefined && secrets !== undefined) {
    mistakes.report([...path, "secrets"], "is set together with secret; expected one of the two");
  }
  if (auth === undefined) return;
  const key = secrets === undefined ? "secret" : "secrets";
  if (auth === "none") {
    if (secret !== undefined || secrets !== undefined) {
      mistakes.report(
        [...path, key],
        `is never asked for, since auth is "none"; expected another auth, or no ${key}`,
      );
    }
    return;
  }
  if (secrets !== undefined) {
    checkList(secrets, auth, [...path, "secrets"], mistakes);
  } else if (secret === undefined) {
    if (!mistakes.isReported([...path, "secrets"]))
      mistakes.reportMissing([...path, "secret"], `is missing; expected it, since auth is "${auth}"`);
  } else {
    checkFormat(secret, auth, [...path, "secret"], mistakes);
  }
}

function checkList(
  secrets: NonNullable<EndpointTable["secrets"]>,
  auth: WebhookAuthMode,
  path: KeyPath,
  mistakes: MistakeList,
): void {
  if (secrets.length === 0 || secrets.length > MAX_SECRETS) {
    mistakes.report(path, `holds ${secrets.length} secrets; expected 1 to ${MAX_SECRETS}`);
  }
  const names = new Set<string>();
  for (const [i, item] of secrets.entries()) {
    if (typeof item === "string") {
      checkFormat(item, auth, [...path, i], mistakes);
    } else if (item !== undefined) {
      if (item.secret !== undefined) checkFormat(item.secret, auth, [...path, i, "secret"], mistakes);
      if (item.name === undefined) continue;
      if (names.has(item.name)) {
        mistakes.report([...path, i, "name"], "is the name of another secret; expected each name once");
      }
      names.add(item.name);
    }
  }
}

function checkFormat(secret: string, auth: WebhookAuthMode, path: KeyPath, mistakes: MistakeList): void {
  switch (WEBHOOK_AUTH_MODES[auth].secretFormat) {
    case "none":
    case "text":
      return;
    case "header":
      if (/^[\x21-\x7e]+$/.test(secret)) return;
      mistakes.report(
        path,
        `cannot be sent in a header, as auth "${auth}" does; expected visible ASCII characters, without blanks and line ends`,
      );
      return;
    case "segment":
      if (!/^[A-Za-z0-9._~-]+$/.test(secret) || secret === "." || secret === "..") {
        mistakes.report(
          path,
          "cannot be a segment of a path as it stands; expected letters, digits, and . _ ~ - only",
        );
      } else if (secret.length < 16) {
        mistakes.warn(path, "is short for all that keeps others out; expected 32 random characters or more");
      }
      return;
    case "key": {
      const key = parseStandardWebhooksKey(secret);
      if (key?.kind === "public") return;
      if (key?.kind === "symmetric") {
        const { length } = key.bytes;
        if (length < MIN_SHARED_KEY_BYTES)
          mistakes.warn(
            path,
            `is ${length} bytes long; expected ${MIN_SHARED_KEY_BYTES} random ones or more`,
          );
        return;
      }
      mistakes.report(
        path,
        key?.kind === "private"
          ? "is the sender's private key, which only the sender may have; expected its public key, whpk_ and base64"
          : "is not a key of Standard Webhooks; expected whsec_ and base64, or whpk_ and the base64 of an ed25519 public key",
      );
    }
  }
}
