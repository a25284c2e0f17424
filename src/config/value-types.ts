import * as z from "zod";
import { parseEvmAddress } from "../core/addresses.ts";
import { MAX_U64 } from "../core/amounts.ts";
import { parseBindAddress, parseIpRange, type TcpAddress } from "../core/network-address.ts";
import { parseDollars, type UsdPrice } from "../core/price.ts";
import { parsePrivateKey } from "../core/private-keys.ts";
import { CHAIN_IDS_BY_NAME } from "./token-presets.ts";

/*
 * Kinds of value that keys hold. Each has a description that completes "expected …" in mistakes and lists all that is
 * accepted. Mistakes never quote a string, because any string may be a secret from `env:NAME`.
 */

const MAX_U256 = 2n ** 256n - 1n;
const CANONICAL_DECIMAL = /^(0|[1-9][0-9]*)$/;

/** String that `parse` accepts by returning a value. `parse` may add an issue of its own. */
function parsedText<T>(expected: string, parse: (text: string, ctx: z.RefinementCtx) => T | undefined) {
  return z
    .string()
    .transform((text, ctx): T => {
      const value = parse(text, ctx);
      if (value !== undefined) return value;
      ctx.addIssue({ code: "custom" });
      return z.NEVER;
    })
    .describe(expected);
}

/** String of one form. */
const matching = (form: RegExp, expected: string) => z.string().regex(form).describe(expected);

export const text = (expected = "a string that is not empty") => z.string().min(1).describe(expected);

/** Text that is safe in a header or a list. */
export const label = () =>
  matching(/^\P{Cc}{1,128}$/u, "a string of 1 to 128 characters without control characters");

/** Secret that is a whole header value. */
export const headerSecret = () =>
  matching(/^[\x21-\x7e]+$/, "a string of visible ASCII characters, env:NAME or file:PATH");

/** Bound on the work of a request, which tries each secret, and on the headers that are signed with each. */
const MAX_SECRETS = 8;

/** Array of secrets, each of which is in use. */
export const secretArray = <T extends z.ZodType>(secret: T, what: string) =>
  z.array(secret).min(1).max(MAX_SECRETS).describe(`1 to ${MAX_SECRETS} ${what}`);

/** One secret, or several while clients move from one to the next. */
export const secretOrArray = <T extends z.ZodType>(secret: T, what: string) =>
  z.union([secret, secretArray(secret, what)]).describe(`${secret.description}, or an array of them`);

/** Bearer tokens of a listener, any of which is accepted. */
export const bearerTokens = () => secretOrArray(headerSecret(), "tokens");

/** Returns what {@link secretOrArray} accepted as a list. */
export function secretList<T>(secrets: string | readonly T[] | undefined): readonly (string | T)[] {
  if (secrets === undefined) return [];
  return typeof secrets === "string" ? [secrets] : secrets;
}

const DEMO_KEYS = ["0123456789abcdef".repeat(4)];
/** A key with fewer different digits was typed, not drawn: of a billion random keys, none has so few. */
const MIN_DIFFERENT_DIGITS = 8;

/** Key that MPP challenges are made with. */
export const mppKey = () =>
  z
    .string()
    .refine(
      (key) =>
        /^[0-9a-f]{64,}$/.test(key) && !DEMO_KEYS.includes(key) && new Set(key).size >= MIN_DIFFERENT_DIGITS,
    )
    .describe(
      "64 or more lower-case hex digits that are random (`openssl rand -hex 32`), as env:NAME or file:PATH",
    );

/** Value of an HTTP header, which may be a secret. */
export const headerValue = () =>
  matching(
    /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/,
    "a string of ASCII characters without spaces at its ends, env:NAME or file:PATH",
  );

/** Private key of an EVM account. Yields it with 0x. */
export const privateKey = () =>
  parsedText("a private key: 0x and 64 hex digits, as env:NAME or file:PATH", (value) =>
    parsePrivateKey(value.trimEnd().replace(/^(?!0x)/, "0x")),
  );

export function oneOf<const T extends readonly [string, ...string[]]>(values: T, note?: string) {
  const list = values
    .map((value) => `"${value}"`)
    .join(", ")
    .replace(/, ([^,]+)$/, " or $1");
  return z.enum(values).describe(note === undefined ? list : `${list} (${note})`);
}

export const trueOrFalse = () => z.boolean().describe("true or false");

export const integer = (min: number, max: number) =>
  z.bigint().min(BigInt(min)).max(BigInt(max)).transform(Number).describe(`an integer from ${min} to ${max}`);

/** Largest request body that a gateway accepts. */
export const maxBodyBytes = () => integer(1, 268_435_456).default(1_048_576);

/** Longest timer: Node fires a longer one at once. */
const MAX_TIMER_SECS = 2_147_483;

/** Number, fractions allowed. */
const numberWithin = (min: number, max: number) =>
  z
    .union([z.bigint(), z.number()])
    .transform(Number)
    .refine((value) => value >= min && value <= max);

/** Span in seconds in the file, fractions allowed. Yields milliseconds. */
export const seconds = (min: number) =>
  numberWithin(min, MAX_TIMER_SECS)
    .transform((value) => Math.round(value * 1000))
    .describe(`a number of seconds from ${min} to ${MAX_TIMER_SECS}`);

const MIN_DAYS = 0.0001;

/** Age in days, fractions allowed. */
export const days = () =>
  numberWithin(MIN_DAYS, 36_500).describe(`a number of days from ${MIN_DAYS} to 36500`);

/** Span of up to a year in whole seconds in the file. Yields milliseconds. */
export const wholeSeconds = () =>
  z
    .bigint()
    .min(1n)
    .max(31_536_000n)
    .transform((value) => Number(value) * 1000)
    .describe("an integer from 1 to 31536000");

/** TOML integers end at 2^63 - 1, so a larger id has to be a string. */
export const u64 = () =>
  z
    .union([z.bigint(), z.string().regex(CANONICAL_DECIMAL).transform(BigInt)])
    .refine((value) => value >= 0n && value <= MAX_U64)
    .describe("an integer from 0 to 2^64 - 1 (as a string above 2^63 - 1)");

export const u32 = () => integer(0, 0xffff_ffff);

/** Id that is the key of a table. */
export const idKey = (bits: 64 | 32) =>
  z
    .string()
    .refine((key) => CANONICAL_DECIMAL.test(key) && BigInt(key) < 2n ** BigInt(bits))
    .describe(`an id in canonical decimal (no sign, no leading zero) below 2^${bits} as the key`);

export const wei = () =>
  parsedText('an amount of wei as a string of decimal digits, such as "1000000000000000"', (value) =>
    CANONICAL_DECIMAL.test(value) && BigInt(value) <= MAX_U256 ? BigInt(value) : undefined,
  );

/** Price in dollars, or the word that leaves the price to the pricing engine. */
export const dollarsOrEngine = () =>
  parsedText(
    'dollars above 0 with at most 6 decimal places, such as "$0.01", or "engine"',
    (value): UsdPrice | "engine" | undefined => (value === "engine" ? value : parseDollars(value)),
  );

/** Least charge: a part of the price, or dollars, which only a price in dollars can have. */
export type MinCharge = UsdPrice | { readonly basisPoints: number };

export const minCharge = () =>
  parsedText(
    'a part of the price such as "10%", or dollars such as "$0.01"',
    (value): MinCharge | undefined => {
      const [, percent] = /^((?:100|[1-9]?[0-9])(?:\.[0-9]{1,2})?)%$/.exec(value) ?? [];
      if (percent === undefined) return parseDollars(value);
      const basisPoints = Math.round(Number(percent) * 100);
      return basisPoints > 0 && basisPoints <= 10_000 ? { basisPoints } : undefined;
    },
  );

/** Name of a job, which is also an MCP tool's name. */
export const jobName = () =>
  matching(
    /^[a-z0-9][a-z0-9-]{0,62}$/,
    "1 to 63 lower-case letters, digits and hyphens that do not begin with a hyphen",
  );

/** Name that x402 clients and catalogues take. */
export const serviceName = () =>
  matching(/^[\x21-\x7e](?:[\x20-\x7e]{0,30}[\x21-\x7e])?$/, "1 to 32 ASCII characters");

/** Text of several lines for people and agents. */
export const prose = () =>
  z
    .string()
    .regex(/^[^\p{Cc}]([^\p{Cc}]|[\n\r\t])*$/u)
    .max(4_000)
    .describe("text of 1 to 4000 characters");

/** Media type, parameters allowed. */
export const mediaType = () =>
  matching(
    /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(; ?[\w!#$&^.+-]+=[\w!#$&^.+-]+)*$/,
    'a media type, such as "application/json"',
  );

export const rate = () =>
  z
    .string()
    .refine((value) => /^(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(value) && /[1-9]/.test(value))
    .describe('a decimal number above 0 as a string, such as "3200.00"');

/** Amount above 0 with at most `decimals` decimal places. Yields the smallest units. */
export const decimalAmount = (decimals: number, what: string) =>
  parsedText(`${what} above 0 as a string, with at most ${decimals} decimal places`, (value) => {
    const [, whole, fraction = ""] = /^(0|[1-9][0-9]{0,30})(?:\.([0-9]+))?$/.exec(value) ?? [];
    if (whole === undefined || fraction.length > decimals) return undefined;
    const units = BigInt(whole + fraction.padEnd(decimals, "0"));
    return units === 0n ? undefined : units;
  });

/** JSON pointer (RFC 6901). The empty one points to the whole document. */
export const jsonPointer = () =>
  matching(/^(\/([^~/]|~[01])*)*$/, 'a JSON pointer (RFC 6901), such as "/data/rate"');

/** EVM network. Yields it as CAIP-2. */
export const network = () =>
  parsedText('a CAIP-2 EVM network such as "eip155:8453", or its x402 v1 name such as "base"', parseNetwork);

/** Returns the CAIP-2 name of an EVM network. */
export function parseNetwork(value: string): `eip155:${number}` | undefined {
  const byName = CHAIN_IDS_BY_NAME.get(value);
  if (byName !== undefined) return `eip155:${byName}`;
  const chainId = /^eip155:([1-9][0-9]{0,15})$/.exec(value)?.[1];
  return chainId !== undefined && Number.isSafeInteger(Number(chainId))
    ? (value as `eip155:${number}`)
    : undefined;
}

/** EVM address. Yields it with its checksum. */
export const address = () =>
  parsedText("an address: 0x and 40 hex digits", (value, ctx) => {
    const parsed = parseEvmAddress(value);
    if (parsed.kind === "wrong_checksum") {
      const message =
        "has a wrong checksum, so a digit may be mistyped; expected the address exactly as its owner gives it, or all in lower case";
      ctx.addIssue({ code: "custom", message });
    }
    if (parsed.kind !== "address") return undefined;
    if (BigInt(parsed.address) !== 0n) return parsed.address;
    const message = "is the zero address; expected an address that belongs to someone";
    ctx.addIssue({ code: "custom", message });
    return undefined;
  });

export const bindAddress = () => parsedText('"host:port", "[ipv6]:port" or "unix:PATH"', parseBindAddress);

export const tcpAddress = () =>
  parsedText('"host:port" or "[ipv6]:port"', (value): TcpAddress | undefined => {
    const parsed = parseBindAddress(value);
    return parsed?.kind === "tcp" ? parsed : undefined;
  });

/** URL that paths are appended to. Yields it without a trailing slash. */
export const baseUrl = () =>
  parsedText("an absolute http:// or https:// URL without query and fragment", (value) => {
    const url = parseHttpUrl(value);
    return url === undefined || /[?#]/.test(value) ? undefined : url.href.replace(/\/+$/, "");
  });

/** URL that is requested as it is, for example of a JSON-RPC server. Its query may hold an API key. */
export const httpUrl = () =>
  parsedText("an absolute http:// or https:// URL", (value) => parseHttpUrl(value)?.href);

/** Origin of web pages as browsers send it, or `*` for every origin. */
export const webOrigin = () =>
  parsedText('an origin, such as "https://shop.example", or "*"', (value) => {
    if (value === "*") return value;
    // Browser extensions have schemes of their own.
    if (!/^[a-z][a-z0-9+.-]*:\/\/[^/\\\s?#@]+$/i.test(value) || !URL.canParse(value)) return undefined;
    const { protocol, host } = new URL(value);
    return `${protocol}//${host}`;
  });

function parseHttpUrl(value: string): URL | undefined {
  // new URL() silently corrects spaces, backslashes and missing slashes.
  if (!/^https?:\/\/[^/\\\s][^\\\s]*$/.test(value) || !URL.canParse(value)) return undefined;
  return new URL(value);
}

export const storeUrl = () =>
  z
    .string()
    .refine((value) => /^sqlite:./.test(value) || (/^postgres(ql)?:\/\/./.test(value) && URL.canParse(value)))
    .describe('"sqlite:PATH" or "postgres://…" with one host');

/** Header name in the letter case of the file. */
export const writtenHeaderName = () =>
  matching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "the name of an HTTP header");

/** Header name. Yields it in lower case. */
export const headerName = () => writtenHeaderName().toLowerCase();

/** Headers of a request that its runner gets, in lower case. */
export const headerNames = () => z.array(headerName()).describe("an array of header names");

export const ipRange = () =>
  parsedText('an IPv4 or IPv6 address or range, such as "203.0.113.0/24"', parseIpRange);

/** Name of a query parameter, in decoded form. */
export const queryParameter = () => matching(/^[\x21-\x7e]{1,128}$/, "the name of a query parameter");

/** Path of a webhook. It is compared with request paths byte for byte, so it has no form but the canonical one. */
export const webhookPath = () =>
  z
    .string()
    .refine((value) => {
      const segments = value.split("/").slice(1);
      const isClean = value.startsWith("/") && /^[\x21-\x7e]+$/.test(value) && !/[?#%\\]/.test(value);
      return isClean && segments.every((segment) => !["", ".", ".."].includes(segment));
    })
    .describe(
      "a path that starts with / and has no query, fragment, percent-encoding, backslash, empty segment, . or .. segment, and only visible ASCII characters",
    );
