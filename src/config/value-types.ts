import { z } from "zod";
import { parseEvmAddress } from "../core/addresses.ts";
import type { TcpAddress } from "../core/network-address.ts";
import { parseBindAddress, parseIpRange } from "../core/network-address.ts";

/*
 * The kinds of value that configuration keys hold. The description of each completes "expected …" in mistakes,
 * so it says all of what is accepted. Values are never quoted in messages: any may come from an `env:` secret.
 */

const MAX_U64 = 2n ** 64n - 1n;
const MAX_U256 = 2n ** 256n - 1n;
const CANONICAL_DECIMAL = /^(0|[1-9][0-9]*)$/;

/** A text that a parser accepts by returning something. */
function parsedText<T>(expected: string, parse: (text: string, ctx: z.RefinementCtx) => T | undefined) {
  return z
    .string()
    .transform((text, ctx): T => {
      const value = parse(text, ctx);
      if (value !== undefined) return value;
      // Without a message, the description stands in its place.
      ctx.addIssue({ code: z.ZodIssueCode.custom, message: "" });
      return z.NEVER;
    })
    .describe(expected);
}

/** Any text that is not empty. */
export const text = (expected = "a string that is not empty") => z.string().min(1).describe(expected);

/** A text that can stand in a header or a list without breaking out of it. */
export const label = () =>
  parsedText("a string of 1 to 128 characters without control characters", (value) =>
    /^\P{Cc}{1,128}$/u.test(value) ? value : undefined,
  );

/** A secret that travels in a header of its own. */
export const headerSecret = () =>
  parsedText("a string of visible ASCII characters, or env:NAME", (value) =>
    /^[\x21-\x7e]+$/.test(value) ? value : undefined,
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

/** The largest request body that a gateway takes. */
export const maxBodyBytes = () => integer(1, 268_435_456).default(1_048_576n);

/** Bound of timers: a longer one would fire at once. */
const MAX_TIMER_SECS = 2_147_483;

/** A span in seconds, fractions allowed, that comes out in milliseconds. */
export const seconds = (min: number) =>
  z
    .union([z.bigint().transform(Number), z.number()])
    .refine((value) => value >= min && value <= MAX_TIMER_SECS)
    .transform((value) => Math.round(value * 1000))
    .describe(`a number of seconds from ${min} to ${MAX_TIMER_SECS}`);

/** TOML integers end at 2^63 - 1, so the upper half of u64 has to be written as a string. */
export const u64 = () =>
  z
    .union([z.bigint(), z.string().regex(CANONICAL_DECIMAL).transform(BigInt)])
    .refine((value) => value >= 0n && value <= MAX_U64)
    .describe("an integer from 0 to 2^64 - 1 (as a string above 2^63 - 1)");

export const u32 = () => integer(0, 0xffff_ffff);

/** A key of a table that stands for an id. */
export const idKey = (bits: 64 | 32) =>
  parsedText(`an id in canonical decimal (no sign, no leading zero) below 2^${bits} as the key`, (value) =>
    CANONICAL_DECIMAL.test(value) && BigInt(value) < 2n ** BigInt(bits) ? value : undefined,
  );

export const wei = () =>
  parsedText('an amount of wei as a string of decimal digits, such as "1000000000000000"', (value) =>
    CANONICAL_DECIMAL.test(value) && BigInt(value) <= MAX_U256 ? BigInt(value) : undefined,
  );

export const rate = () =>
  parsedText('a decimal number above 0 as a string, such as "3200.00"', (value) =>
    /^(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(value) && /[1-9]/.test(value) ? value : undefined,
  );

/** RFC 6901; the empty one stands for the whole document. */
export const jsonPointer = () =>
  parsedText('a JSON pointer (RFC 6901), such as "/data/rate"', (value) =>
    /^(\/([^~/]|~[01])*)*$/.test(value) ? value : undefined,
  );

export const network = () =>
  parsedText('a CAIP-2 EVM network, such as "eip155:8453"', (value) => {
    const chainId = /^eip155:([1-9][0-9]{0,15})$/.exec(value)?.[1];
    return chainId !== undefined && Number.isSafeInteger(Number(chainId))
      ? (value as `eip155:${number}`)
      : undefined;
  });

export const address = () =>
  parsedText("an address: 0x and 40 hex digits", (value, ctx) => {
    const parsed = parseEvmAddress(value);
    if (parsed.kind === "address" && BigInt(parsed.address) !== 0n) return parsed.address;
    const reason =
      parsed.kind === "wrong_checksum"
        ? "has a wrong checksum, so a digit may be mistyped; expected the address exactly as its owner gives it, or all in lower case"
        : parsed.kind === "address"
          ? "is the zero address; expected an address that belongs to someone"
          : "";
    ctx.addIssue({ code: z.ZodIssueCode.custom, message: reason });
    return z.NEVER;
  });

export const bindAddress = () =>
  parsedText('"host:port", "[ipv6]:port" or "unix:PATH"', (value) => parseBindAddress(value));

export const tcpAddress = () =>
  parsedText('"host:port" or "[ipv6]:port"', (value): TcpAddress | undefined => {
    const parsed = parseBindAddress(value);
    return parsed?.kind === "tcp" ? parsed : undefined;
  });

/** An absolute http or https URL that paths can be appended to: comes out without a trailing slash. */
export const baseUrl = () =>
  parsedText("an absolute http:// or https:// URL without query and fragment", (value) => {
    const url = parseHttpUrl(value);
    return url === undefined || /[?#]/.test(value) ? undefined : url.href.replace(/\/+$/, "");
  });

/** The URL of something that is asked as it stands, such as JSON-RPC: a query may hold the key. */
export const httpUrl = () =>
  parsedText("an absolute http:// or https:// URL", (value) => parseHttpUrl(value)?.href);

function parseHttpUrl(value: string): URL | undefined {
  // new URL() would mend spaces, backslashes and missing slashes in silence.
  if (!/^https?:\/\/[^/\\\s][^\\\s]*$/.test(value) || !URL.canParse(value)) return undefined;
  return new URL(value);
}

export const storeUrl = () =>
  parsedText('"sqlite:PATH" or "postgres://…"', (value) => {
    if (/^sqlite:./.test(value)) return value;
    return /^postgres(ql)?:\/\/./.test(value) && URL.canParse(value) ? value : undefined;
  });

export const headerName = () =>
  parsedText("the name of an HTTP header", (value) =>
    /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(value) ? value.toLowerCase() : undefined,
  );

export const ipRange = () =>
  parsedText('an IPv4 or IPv6 address or range, such as "203.0.113.0/24"', (value) => parseIpRange(value));

/** As it stands in a URL once it is decoded. */
export const queryParameter = () =>
  parsedText("the name of a query parameter", (value) =>
    /^[\x21-\x7e]{1,128}$/.test(value) ? value : undefined,
  );

/** The path of a webhook, compared with request paths byte for byte. */
export const webhookPath = () =>
  parsedText(
    "a path that starts with / and has no query, fragment, percent-encoding, backslash, empty segment, . or .. segment, and only visible ASCII characters",
    (value) => {
      const segments = value.split("/").slice(1);
      const clean = value.startsWith("/") && /^[\x21-\x7e]+$/.test(value) && !/[?#%\\]/.test(value);
      return clean && segments.every((segment) => !["", ".", ".."].includes(segment)) ? value : undefined;
    },
  );
