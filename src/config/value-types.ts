import * as z from "zod";
import { type NetworkKind, parseEvmAddress } from "../core/addresses.ts";
import { decimalText, MAX_U64 } from "../core/amounts.ts";
import { closestWord } from "../core/closest-word.ts";
import { accountOf, type PrivateKey, parsePrivateKey } from "../core/private-keys.ts";
import type { FileReading, NamedFile } from "./named-files.ts";
import { CHAIN_IDS_BY_NAME } from "./token-presets.ts";
import { kind, SECRET, SHOWN, type ValueNotes } from "./wrong-value.ts";

/* Kinds of value that keys hold. Each kind defines which values it accepts, what operators see of a value, and what a
   mistake may say about a wrong value. URLs, paths and headers are in web-types.ts. */

const MAX_U256 = 2n ** 256n - 1n;
const CANONICAL_DECIMAL = /^(0|[1-9][0-9]*)$/;

/** String that is valid if `parse` returns a value for it. */
export function parsedText<T>(
  expected: string,
  parse: (text: string) => T | undefined,
  notes: ValueNotes<T>,
) {
  const parsed = z.string().transform((text, ctx): T => {
    const value = parse(text);
    if (value !== undefined) return value;
    ctx.addIssue({ code: "custom" });
    return z.NEVER;
  });
  return kind(parsed, expected, notes);
}

/** String that matches a regular expression. */
export const matching = (form: RegExp, expected: string, notes: ValueNotes<string>) =>
  kind(z.string().regex(form), expected, notes);

/** Text without restrictions. */
export const text = (expected: string, notes: ValueNotes<string> = SECRET) =>
  kind(z.string().min(1), expected, notes);

/** Path of a file, which is read with the configuration. Operators see the path. */
export const namedFile = (expected: string, file: FileReading) =>
  kind(
    z
      .string()
      .min(1)
      // checkShape fills in the text.
      .transform((path): NamedFile => ({ path, text: "" })),
    expected,
    { view: ({ path }) => path, file },
  );

export const pemFile = (isSecret = false) =>
  namedFile("the path of a PEM file", { from: "process", isSecret });

/** Text that is safe in a header or a list. */
export const label = () =>
  matching(/^\P{Cc}{1,128}$/u, "a string of 1 to 128 characters without control characters", SHOWN);

/** Secret that is the whole value of a header. */
export const headerSecret = () =>
  matching(/^[\x21-\x7e]+$/, "a string of visible ASCII characters, env:NAME or file:PATH", {
    fault: () => "has a space, a line break or a character that is not ASCII",
  });

/**
 * Most secrets in an array. The limit bounds the work of comparing a request with every secret. It also bounds the
 * size of the headers of a request that jobgate sends, because the request is signed with every key.
 */
const MAX_SECRETS = 8;

/** Array of secrets that are all in use. */
export const secretArray = <T extends z.ZodType>(secret: T, what: string) =>
  z.array(secret).min(1).max(MAX_SECRETS).describe(`1 to ${MAX_SECRETS} ${what}`);

/** One secret, or several during a rotation. */
export const secretOrArray = <T extends z.ZodType>(secret: T, what: string) =>
  z.union([secret, secretArray(secret, what)]).describe(`${secret.description}, or an array of them`);

/** Bearer tokens of a listener, any of which is accepted. */
export const bearerTokens = () => secretOrArray(headerSecret(), "tokens");

/** Keys of which each signs every request. */
export const signingKeys = () => secretOrArray(text("a Standard Webhooks key (whsec_ and base64)"), "keys");

/** Returns the value of {@link secretOrArray} as a list. */
export function secretList<T>(secrets: string | readonly T[] | undefined): readonly (string | T)[] {
  if (secrets === undefined) return [];
  return typeof secrets === "string" ? [secrets] : secrets;
}

/** Value of an HTTP header, which may be a secret. */
export const headerValue = (notes: ValueNotes<string> = SECRET) =>
  matching(
    /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/,
    "a string of ASCII characters without spaces at its ends, env:NAME or file:PATH",
    { ...notes, fault: () => "has a space at an end, a line break or a character that is not ASCII" },
  );

/** Private key of an EVM account. Yields the key with `0x`. Operators see the account. */
export const privateKey = () =>
  parsedText(
    "a private key: 0x and 64 hex digits, as env:NAME or file:PATH",
    (value) => parsePrivateKey(value.trimEnd().replace(/^(?!0x)/, "0x")),
    {
      view: accountText,
      fault: (value) => hexFault(value.trimEnd(), 64) ?? "is not a key of secp256k1",
    },
  );

/** Returns what operators see of a private key. */
export const accountText = (key: PrivateKey): string => `account ${accountOf(key)}`;

/** Describes why a text is not this many hex digits, with or without 0x. */
function hexFault(value: string, digits: number): string | undefined {
  const hex = value.replace(/^0x/, "");
  if (!/^[0-9a-f]*$/i.test(hex)) return "has a character that is not a hex digit";
  return hex.length === digits ? undefined : `has ${hex.length} hex digits`;
}

export function oneOf<const T extends readonly [string, ...string[]]>(values: T, note?: string) {
  const list = values
    .map((value) => `"${value}"`)
    .join(", ")
    .replace(/, ([^,]+)$/, " or $1");
  return kind(z.enum(values), note === undefined ? list : `${list} (${note})`, {
    ...SHOWN,
    near: (word) => [closestWord(word, values)],
  });
}

export const trueOrFalse = () => kind(z.boolean(), "true or false", SHOWN);

export const integer = (min: number, max: number) =>
  kind(
    z.bigint().min(BigInt(min)).max(BigInt(max)).transform(Number),
    `an integer from ${min} to ${max}`,
    SHOWN,
  );

/** Largest request body that a gateway accepts. */
export const bodyBytes = () => integer(1, 268_435_456);
export const maxBodyBytes = () => bodyBytes().default(1_048_576);

/** Longest timer, in seconds. Node fires a longer timer at once. */
const MAX_TIMER_SECS = 2_147_483;

/** Number, fractions allowed. */
const numberWithin = (min: number, max: number) =>
  z
    .union([z.bigint(), z.number()])
    .transform(Number)
    .refine((value) => value >= min && value <= max);

/** Span in seconds in the file, fractions allowed. Yields milliseconds. */
export const seconds = (min: number) =>
  kind(
    numberWithin(min, MAX_TIMER_SECS).transform((value) => Math.round(value * 1000)),
    `a number of seconds from ${min} to ${MAX_TIMER_SECS}`,
    { ...SHOWN, view: secondsView, near: (value) => [secondsOf(value)] },
  );

const secondsView = (ms: number) => ms / 1000;

/** Reads a text such as `10s`, `500ms` or `5m`, as other programs write durations. */
function secondsOf(text: string): number | undefined {
  const [, count, unit = ""] = /^([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h)$/.exec(text) ?? [];
  return count === undefined ? undefined : Number(count) * (SECS_BY_UNIT[unit] ?? 1);
}

const SECS_BY_UNIT: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3_600 };

const MIN_DAYS = 0.0001;

/** Age in days, fractions allowed. */
export const days = () =>
  kind(numberWithin(MIN_DAYS, 36_500), `a number of days from ${MIN_DAYS} to 36500`, SHOWN);

/** Span of up to a year in whole seconds in the file. Yields milliseconds. */
export const wholeSeconds = () =>
  kind(
    z
      .bigint()
      .min(1n)
      .max(31_536_000n)
      .transform((value) => Number(value) * 1000),
    "an integer from 1 to 31536000 (seconds)",
    { ...SHOWN, view: secondsView },
  );

/** TOML integers end at 2^63 - 1, so a larger id has to be a string. */
export const u64 = () =>
  kind(
    z
      .union([z.bigint(), z.string().regex(CANONICAL_DECIMAL).transform(BigInt)])
      .refine((value) => value >= 0n && value <= MAX_U64),
    "an integer from 0 to 2^64 - 1 (as a string above 2^63 - 1)",
    { ...SHOWN, view: (id) => (id > Number.MAX_SAFE_INTEGER ? String(id) : Number(id)) },
  );

export const u32 = () => integer(0, 0xffff_ffff);

/** Id that is the key of a table. */
export const idKey = (bits: 64 | 32) =>
  kind(
    z.string().refine((key) => CANONICAL_DECIMAL.test(key) && BigInt(key) < 2n ** BigInt(bits)),
    `an id in canonical decimal (no sign, no leading zero) below 2^${bits} as the key`,
    SHOWN,
  );

export const wei = () =>
  parsedText(
    'an amount of wei as a string of decimal digits, such as "1000000000000000"',
    (value) => (CANONICAL_DECIMAL.test(value) && BigInt(value) <= MAX_U256 ? BigInt(value) : undefined),
    { ...SHOWN, view: String },
  );

/** Returns the price in dollars that a text may mean: `0,01` is `$0.01`, and `$1,000` is `$1000`. */
export function dollarsLike(value: string): string {
  const amount = value.replace(/^\$/, "");
  const isGrouped = /^[0-9]{1,3}(,[0-9]{3})+(\.|$)/.test(amount);
  return `$${isGrouped ? amount.replaceAll(",", "") : amount.replace(",", ".")}`;
}

/** Name of a job, which is also an MCP tool's name. */
export const jobName = () =>
  matching(
    /^[a-z0-9][a-z0-9-]{0,62}$/,
    "1 to 63 lower-case letters, digits and hyphens that do not begin with a hyphen",
    { ...SHOWN, near: (name) => [name.toLowerCase().replace(/[ _.]/g, "-")] },
  );

/** Text of several lines for people and agents. */
export const prose = (maxLength = 4_000) =>
  kind(
    z
      .string()
      .regex(/^[^\p{Cc}]([^\p{Cc}]|[\n\r\t])*$/u)
      .max(maxLength),
    `text of 1 to ${maxLength} characters`,
    { ...SHOWN, fault: (value) => (value.length > maxLength ? `has ${value.length} characters` : undefined) },
  );

/** Media type, parameters allowed. */
export const mediaType = () =>
  matching(
    /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(; ?[\w!#$&^.+-]+=[\w!#$&^.+-]+)*$/,
    'a media type, such as "application/json"',
    SHOWN,
  );

export const rate = () =>
  kind(
    z.string().refine((value) => /^(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(value) && /[1-9]/.test(value)),
    'a decimal number above 0 as a string, such as "3200.00"',
    SHOWN,
  );

/** Amount above 0 with at most `decimals` decimal places. Yields the smallest units. */
export const decimalAmount = (decimals: number, what: string) =>
  parsedText(
    `${what} above 0 as a string, with at most ${decimals} decimal places`,
    (value) => {
      const [, whole, fraction = ""] = /^(0|[1-9][0-9]{0,30})(?:\.([0-9]+))?$/.exec(value) ?? [];
      if (whole === undefined || fraction.length > decimals) return undefined;
      const units = BigInt(whole + fraction.padEnd(decimals, "0"));
      return units === 0n ? undefined : units;
    },
    { ...SHOWN, view: (units) => decimalText(units, decimals) },
  );

/** JSON pointer (RFC 6901). An empty pointer points to the whole document. */
export const jsonPointer = () =>
  matching(/^(\/([^~/]|~[01])*)*$/, 'a JSON pointer (RFC 6901), such as "/data/rate"', SHOWN);

const EVM_NETWORK = 'a CAIP-2 EVM network such as "eip155:8453", or its name such as "base"';

/** EVM network. Yields it as CAIP-2. */
export const network = () =>
  parsedText(EVM_NETWORK, parseNetwork, {
    ...SHOWN,
    near: (value) => [`eip155:${value}`, closestWord(value, [...CHAIN_IDS_BY_NAME.keys()])],
  });

/** Network of any kind. Yields it as CAIP-2. */
export const anyNetwork = (kinds: readonly NetworkKind[] = []) =>
  parsedText(
    [...kinds.map(({ names }) => `"${[...names.keys()][0]}"`), EVM_NETWORK].join(", or "),
    (value) => parseAnyNetwork(value, kinds),
    {
      ...SHOWN,
      near: (value) => [
        `eip155:${value}`,
        closestWord(value, [...CHAIN_IDS_BY_NAME.keys(), ...kinds.flatMap(({ names }) => [...names.keys()])]),
      ],
    },
  );

/** Returns the CAIP-2 name of an EVM network, or of a network of these kinds. */
export function parseAnyNetwork(
  value: string,
  kinds: readonly NetworkKind[],
): `${string}:${string}` | undefined {
  const parsed = parseNetwork(value);
  if (parsed !== undefined) return parsed;
  const named = kinds.flatMap(({ names }) => names.get(value) ?? [])[0] ?? value;
  return kinds.some((kind) => kind.has(named)) ? (named as `${string}:${string}`) : undefined;
}

/** Returns the CAIP-2 name of an EVM network. */
export function parseNetwork(value: string): `eip155:${number}` | undefined {
  const byName = CHAIN_IDS_BY_NAME.get(value);
  if (byName !== undefined) return `eip155:${byName}`;
  const chainId = /^eip155:([1-9][0-9]{0,15})$/.exec(value)?.[1];
  return chainId !== undefined && Number.isSafeInteger(Number(chainId))
    ? (value as `eip155:${number}`)
    : undefined;
}

const EVM_ADDRESS = "an address: 0x and 40 hex digits";
const ADDRESS_NOTES = {
  ...SHOWN,
  fault: addressFault,
  near: (value: string) => [`0x${value}`],
};

/** EVM address. Yields it with its checksum. */
export const address = () => parsedText(EVM_ADDRESS, parseAddress, ADDRESS_NOTES);

/** Address of any kind of network. Yields an EVM address with its checksum. Its network determines the kind of address. */
export const anyAddress = (kinds: readonly NetworkKind[] = []) =>
  parsedText(
    [EVM_ADDRESS, ...kinds.map((kind) => kind.address)].join(", or "),
    (value): string | undefined =>
      parseAddress(value) ?? (kinds.some((kind) => kind.isAddress(value)) ? value : undefined),
    ADDRESS_NOTES,
  );

/** @returns undefined for a text that is not an EVM address, and for the zero address */
function parseAddress(value: string): `0x${string}` | undefined {
  const parsed = parseEvmAddress(value);
  return parsed.kind === "address" && BigInt(parsed.address) !== 0n ? parsed.address : undefined;
}

function addressFault(value: string): string | undefined {
  const parsed = parseEvmAddress(value);
  if (parsed.kind === "wrong_checksum")
    return "has a wrong checksum, so a digit may be mistyped; expected the address exactly as its owner gives it, or all in lower case";
  if (parsed.kind === "address") return "is the zero address; expected an address that belongs to someone";
  return hexFault(value, 40) ?? "does not begin with 0x";
}
