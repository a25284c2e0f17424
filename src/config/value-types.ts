import { z } from "zod";
import { parseEvmAddress } from "../core/addresses.ts";
import { parseBindAddress, parseIpRange, type TcpAddress } from "../core/network-address.ts";

/*
 * Kinds of value that keys hold. Each has a description that completes "expected …" in mistakes and lists all that is
 * accepted. Mistakes never quote a string, because any string may be a secret from `env:NAME`.
 */

const MAX_U64 = 2n ** 64n - 1n;
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

export const text = (expected = "a string that is not empty") => z.string().min(1).describe(expected);

/** Text that is safe in a header or a list. */
export const label = () =>
  z
    .string()
    .regex(/^\P{Cc}{1,128}$/u)
    .describe("a string of 1 to 128 characters without control characters");

/** Secret that is a whole header value. */
export const headerSecret = () =>
  z
    .string()
    .regex(/^[\x21-\x7e]+$/)
    .describe("a string of visible ASCII characters, or env:NAME");

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

/** Span in seconds in the file, fractions allowed. Yields milliseconds. */
export const seconds = (min: number) =>
  z
    .union([z.bigint(), z.number()])
    .transform(Number)
    .refine((value) => value >= min && value <= MAX_TIMER_SECS)
    .transform((value) => Math.round(value * 1000))
    .describe(`a number of seconds from ${min} to ${MAX_TIMER_SECS}`);

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

export const rate = () =>
  z
    .string()
    .refine((value) => /^(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(value) && /[1-9]/.test(value))
    .describe('a decimal number above 0 as a string, such as "3200.00"');

/** JSON pointer (RFC 6901). The empty one points to the whole document. */
export const jsonPointer = () =>
  z
    .string()
    .regex(/^(\/([^~/]|~[01])*)*$/)
    .describe('a JSON pointer (RFC 6901), such as "/data/rate"');

export const network = () =>
  parsedText('a CAIP-2 EVM network, such as "eip155:8453"', (value) => {
    const chainId = /^eip155:([1-9][0-9]{0,15})$/.exec(value)?.[1];
    return chainId !== undefined && Number.isSafeInteger(Number(chainId))
      ? (value as `eip155:${number}`)
      : undefined;
  });

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

function parseHttpUrl(value: string): URL | undefined {
  // new URL() silently corrects spaces, backslashes and missing slashes.
  if (!/^https?:\/\/[^/\\\s][^\\\s]*$/.test(value) || !URL.canParse(value)) return undefined;
  return new URL(value);
}

export const storeUrl = () =>
  z
    .string()
    .refine((value) => /^sqlite:./.test(value) || (/^postgres(ql)?:\/\/./.test(value) && URL.canParse(value)))
    .describe('"sqlite:PATH" or "postgres://…"');

/** Header name. Yields it in lower case. */
export const headerName = () =>
  parsedText("the name of an HTTP header", (value) =>
    /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(value) ? value.toLowerCase() : undefined,
  );

export const ipRange = () =>
  parsedText('an IPv4 or IPv6 address or range, such as "203.0.113.0/24"', parseIpRange);

/** Name of a query parameter, in decoded form. */
export const queryParameter = () =>
  z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/)
    .describe("the name of a query parameter");

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
