import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { type DestinationStream, type Logger, pino } from "pino";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export const LOG_FORMATS = ["auto", "json", "pretty"] as const;

export type LogFormat = (typeof LOG_FORMATS)[number];

/** A program's log. No message, field, error or stack in it holds a known secret. */
export interface Log {
  readonly logger: Logger;
  /** Hides these values from now on, wherever they appear. */
  hide(secrets: Iterable<string>): void;
  /** Adds the names of paid jobs from now on to the lines that are about them. @param names by service and index: `1/0` */
  nameJobs(names: ReadonlyMap<string, string>): void;
}

/** Opens a log of one JSON object a line, or of readable text. */
export function openLog(options: {
  /** One of {@link LOG_LEVELS}. */
  readonly level: string;
  /** `auto` is readable text if stderr is a terminal, else JSON. */
  readonly format: LogFormat;
  /** Default: stderr, because stdout is for a command's output. */
  readonly destination?: DestinationStream;
}): Log {
  const { level, format, destination = openStderr(format) } = options;
  const censor = new Censor();
  let jobNames: ReadonlyMap<string, string> = new Map();
  const logger = pino(
    {
      level,
      // Tells replicas apart in a log that collects all of them.
      base: { instance: randomBytes(4).toString("hex") },
      formatters: { log: (fields) => censor.fields(withJobName(fields, jobNames)) },
      serializers: {
        err: (error: unknown) => censor.fields({ err: pino.stdSerializers.err(error as Error) }).err,
      },
    },
    { write: (line) => void destination.write(censor.scrub(line)) },
  );
  return {
    logger,
    hide: (secrets) => censor.hide(secrets),
    nameJobs: (names) => {
      jobNames = names;
    },
  };
}

function withJobName(fields: object, names: ReadonlyMap<string, string>): object {
  const { job, origin = "x402", jobName } = fields as Readonly<Record<string, unknown>>;
  const name = typeof job === "string" && origin === "x402" ? names.get(job) : undefined;
  return name === undefined || jobName !== undefined ? fields : { ...fields, jobName: name };
}

function openStderr(format: LogFormat): DestinationStream {
  const isPretty = format === "pretty" || (format === "auto" && process.stderr.isTTY === true);
  if (!isPretty) return pino.destination({ dest: 2, sync: true });
  // Loaded only if needed, because JSON is the usual format.
  const { prettyFactory } = createRequire(import.meta.url)("pino-pretty") as typeof import("pino-pretty");
  const pretty = prettyFactory({
    colorize: process.stderr.isTTY === true,
    translateTime: "SYS:HH:MM:ss.l",
    ignore: "instance",
  });
  const stderr = pino.destination({ dest: 2, sync: true });
  return { write: (line) => void stderr.write(pretty(line)) };
}

/** Replacement of a secret. */
const HIDDEN = "[hidden]";

const MIN_SECRET_LENGTH = 6;
/** Fields nested deeper are hidden. */
const MAX_DEPTH = 8;

/** Names of fields that are never logged, in lower case and without `-` and `_`. */
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
  "accesstoken",
  // Errors of HTTP clients hold the request in these fields.
  "headers",
  "body",
  "payload",
]);

/** `scheme://user:password@`. */
const URL_CREDENTIALS = /(\/\/)[^/\s"'\\@]+@/g;
/** Query and fragment of a URL. */
const URL_QUERY = /(\b(?:https?|wss?|postgres(?:ql)?):\/\/[^\s"'\\?]+)\?[^\s"'\\]*/g;

/** Removes secrets from log lines: by their values, by the names of fields, and from URLs. */
class Censor {
  readonly #secrets = new Set<string>();

  /**
   * Hides these values from now on. Values too short to be secrets are ignored, because hiding them would make lines
   * unreadable.
   */
  hide(secrets: Iterable<string>): void {
    for (const secret of secrets) if (secret.length >= MIN_SECRET_LENGTH) this.#secrets.add(secret);
  }

  /** Censors a whole line, its message and stacks included. */
  scrub(line: string): string {
    let clean = line.replace(URL_CREDENTIALS, `$1${HIDDEN}@`).replace(URL_QUERY, `$1?${HIDDEN}`);
    for (const secret of this.#secrets) {
      clean = clean.replaceAll(secret, HIDDEN);
      const escaped = JSON.stringify(secret).slice(1, -1);
      if (escaped !== secret) clean = clean.replaceAll(escaped, HIDDEN);
    }
    return clean;
  }

  /** Censors fields by their names, at any depth. */
  fields(fields: object): Record<string, unknown> {
    return censorFields(fields, 0);
  }
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
  // The serializer of errors makes plain objects of them, and censors those.
  if (typeof value !== "object" || value === null || value instanceof Error) return value;
  if (depth > MAX_DEPTH || ArrayBuffer.isView(value)) return HIDDEN;
  if (Array.isArray(value)) return value.map((entry) => censorValue(entry, depth + 1));
  return censorFields(value, depth);
}

function isHidden(key: string): boolean {
  return HIDDEN_KEYS.has(key.toLowerCase().replaceAll(/[-_]/g, ""));
}

/** Names of configuration values that are secrets: `token`, `secret`, `apiKey`… */
const SECRET_NAME = /(secrets?|tokens?|password|key)$/i;
/** Names of URLs, which may hold credentials, or a provider's key in their path or query. */
const URL_NAME = /url$/i;
/** Shorter parts of a path are words, not keys. */
const MIN_PATH_KEY_LENGTH = 16;

/**
 * Finds every secret in a configuration by the names of its values, so that it also finds the secret of a key that is
 * added later.
 */
export function secretsOf(config: unknown, name = ""): string[] {
  if (typeof config === "string") {
    if (URL_NAME.test(name)) return secretsOfUrl(config);
    return SECRET_NAME.test(name) ? [config] : [];
  }
  if (typeof config !== "object" || config === null) return [];
  if (Array.isArray(config)) return config.flatMap((entry) => secretsOf(entry, name));
  if (config instanceof Map) return secretsOf([...config.values()]);
  if (name === "headers") return Object.values(config).flatMap(secretsOfHeader);
  return Object.entries(config).flatMap(([key, value]) => secretsOf(value, key));
}

/** Returns the value of a header, and the token in `Bearer TOKEN`. */
function secretsOfHeader(value: string): string[] {
  return [value, value.slice(value.indexOf(" ") + 1)];
}

function secretsOfUrl(text: string): string[] {
  if (!URL.canParse(text)) return [];
  const { username, password, pathname, search, searchParams } = new URL(text);
  const keys = pathname.split("/").filter((part) => part.length >= MIN_PATH_KEY_LENGTH);
  const found = [username, password, search, ...searchParams.values(), ...keys];
  return found.flatMap((part) => [part, decoded(part)]).filter((part) => part !== "");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
