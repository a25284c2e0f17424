import { parseStandardWebhooksKey } from "../../core/standard-webhooks-key.ts";
import type { KeyPath } from "../key-path.ts";
import type { MistakeList } from "../mistakes.ts";
import { type EndpointTable, WEBHOOK_AUTH_MODES, type WebhookAuthMode } from "../webhooks.ts";

/** Bound on the work of a request, which tries each secret. */
const MAX_SECRETS = 8;
/** Shortest shared key that Standard Webhooks recommends. */
const MIN_SHARED_KEY_BYTES = 24;

/** Checks that an endpoint has the `secret` or `secrets` that its `auth` needs, in the right format. */
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
        `is never used, since auth is "none"; expected another auth, or no ${key}`,
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
        `cannot be sent in a header, as auth "${auth}" does; expected visible ASCII characters, without spaces and line breaks`,
      );
      return;
    case "segment":
      if (!/^[A-Za-z0-9._~-]+$/.test(secret) || secret === "." || secret === "..") {
        mistakes.report(path, "cannot be a path segment; expected letters, digits, and . _ ~ - only");
      } else if (secret.length < 16) {
        mistakes.warn(
          path,
          "is short for the only protection of this path; expected 32 random characters or more",
        );
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
          : "is not a Standard Webhooks key; expected whsec_ and base64, or whpk_ and the base64 of an ed25519 public key",
      );
    }
  }
}
