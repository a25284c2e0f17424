/** In place of what must not be seen. */
const HIDDEN = "[hidden]";

/** A shorter one is no secret, and would shred every line. */
const MIN_SECRET_LENGTH = 6;
/** Whatever is further down is not for a log. */
const MAX_DEPTH = 8;

/** Names of what is never logged, in lower case and without `-` and `_`. */
const HIDDEN_KEYS = new Set([
  "authorization",
  "proxyauthorization",
  "cookie",
  "setcookie",
  "paymentsignature",
  "xpayment",
  "signature",
  "xapikey",
  "apikey",
  "secret",
  "secrets",
  "token",
  "leasetoken",
  "password",
  "privatekey",
  "receipt",
  // Of errors that HTTP clients throw: what they sent.
  "headers",
  "body",
  "payload",
]);

/** `scheme://user:password@`. */
const URL_CREDENTIALS = /(\/\/)[^/\s"'\\@]+@/g;
/** Everything from the `?` of a URL to its end. */
const URL_QUERY = /(\b(?:https?|wss?|postgres(?:ql)?):\/\/[^\s"'\\?]+)\?[^\s"'\\]*/g;

/** @param secrets may grow: what is in it is hidden from then on */
export function censored(secrets: ReadonlySet<string>): {
  /** Of a whole line, its message and stacks included. */
  scrub(line: string): string;
  /** Of a line's fields, by their names. */
  fields(fields: Record<string, unknown>): Record<string, unknown>;
} {
  return {
    scrub(line) {
      let clean = line.replace(URL_CREDENTIALS, `$1${HIDDEN}@`).replace(URL_QUERY, `$1?${HIDDEN}`);
      for (const secret of secrets) {
        if (secret.length < MIN_SECRET_LENGTH) continue;
        clean = clean.replaceAll(secret, HIDDEN);
        const escaped = JSON.stringify(secret).slice(1, -1);
        if (escaped !== secret) clean = clean.replaceAll(escaped, HIDDEN);
      }
      return clean;
    },
    fields: (fields) => censorFields(fields, 0),
  };
}

function censorFields(fields: object, depth: number): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [
      key,
      isHidden(key) && value !== undefined ? HIDDEN : censorValue(value, depth + 1),
    ]),
  );
}

function censorValue(value: unknown, depth: number): unknown {
  if (typeof value === "bigint") return value.toString();
  // Errors are for their serializer, which gives plain objects.
  if (typeof value !== "object" || value === null || value instanceof Error) return value;
  if (depth > MAX_DEPTH || ArrayBuffer.isView(value)) return HIDDEN;
  if (Array.isArray(value)) return value.map((entry) => censorValue(entry, depth + 1));
  return censorFields(value, depth);
}

function isHidden(key: string): boolean {
  return HIDDEN_KEYS.has(key.toLowerCase().replaceAll(/[-_]/g, ""));
}
