import { createHash } from "node:crypto";
import * as z from "zod";
import type { Checked, Complete } from "../../../config/check-shape.ts";
import { earlierPlace, fileKey, type Place } from "../../../config/mistakes.ts";
import { anyAddress, integer, parsedText } from "../../../config/value-types.ts";
import { oneSpelling } from "../../../core/payment.ts";

/** Longest time after a payment in which the payer may ask again. */
const MAX_PAID_SECS = 31_536_000;
const DEFAULT_RATE = 10;

/** A key that gives access. jobgate has only its hash. */
export interface ApiKey {
  readonly name: string;
  /** SHA-256, 64 hex digits in lower case. */
  readonly sha256: string;
}

const LINE = /^([A-Za-z0-9][A-Za-z0-9._@-]{0,63})[ \t]+([0-9a-fA-F]{64})$/;

/** SHA-256 of no bytes. A shell command writes it if the command that makes the key has failed. */
const EMPTY = createHash("sha256").digest("hex");

/** Parses one line for each key: its name and its SHA-256. Empty lines and lines that begin with # are skipped. */
const apiKeys = () =>
  parsedText("lines with a name and the SHA-256 of a key in hex, as file:PATH or env:NAME", parseKeys, {
    view: ({ length }) => (length === 1 ? "1 key" : `${length} keys`),
    fault: keysFault,
  });

const accounts = <Account extends z.ZodType<string | undefined>>(account: Account) =>
  z.array(account).min(1).describe("an array of addresses").optional();

/** Keys of `[[apis.access]]` with accounts. */
export const accountKeys = (account: z.ZodType<string | undefined>) => ({ signIn: accounts(account) });

/** `[[apis.access]]` */
export const accessSchema = z.object({
  apiKeys: apiKeys().optional(),
  /** Accounts whose own keys sign in. */
  signIn: accounts(anyAddress()),
  /** Time after a payment in which its payer gets the same request again. */
  paidWithinSecs: integer(1, MAX_PAID_SECS).optional(),
  /** Requests in a second, of each key or account. */
  rate: integer(1, 1_000_000).default(DEFAULT_RATE),
});

export type AccessTable = Checked<z.output<typeof accessSchema>>;
export type AccessConfig = Complete<z.output<typeof accessSchema>>;

const WAYS = ["apiKeys", "signIn", "paidWithinSecs"] as const;

/** A job of the API, at its place in the file. */
interface PlacedJob {
  readonly isRestricted: boolean;
  /** True if the price depends on the request. */
  readonly isPricedByRequest: boolean;
  readonly place: Place;
}

/** Checks the unpaid access to one API. */
export function checkAccess(
  accesses: readonly (AccessTable | undefined)[],
  place: Place,
  jobs: readonly PlacedJob[],
): void {
  const known = new Map<string, Place>([[`the key of ${EMPTY}`, place]]);
  const restricted = jobs.find(({ isRestricted }) => isRestricted);
  const priced = jobs.find(({ isPricedByRequest }) => isPricedByRequest);
  for (const [i, access] of accesses.entries()) {
    if (access === undefined) continue;
    const at = place.at(i);
    const given = WAYS.filter((way) => access[way] !== undefined || at.at(fileKey(way)).isReported);
    if (given.length !== 1)
      at.report(
        `has ${given.map(fileKey).join(" and ") || "no way in"}; expected one of api_keys, sign_in and paid_within_secs`,
      );
    for (const { name, sha256 } of (access.apiKeys ?? []) as readonly ApiKey[])
      for (const text of [`the name ${name}`, `the key of ${sha256}`])
        if (earlierPlace(known, text, at.at("api_keys")) !== undefined)
          at.at("api_keys").report(
            sha256 === EMPTY
              ? `has an empty key (${name}); expected the SHA-256 of a key`
              : `has a key twice (${name}); expected each name and each key once`,
          );
    for (const account of access.signIn ?? [])
      if (
        earlierPlace(known, `the account ${account && oneSpelling(account)}`, at.at("sign_in")) !== undefined
      )
        at.at("sign_in").report(`has ${account} twice; expected each account once`);
    if (access.paidWithinSecs !== undefined) {
      const earlier = earlierPlace(known, "paid_within_secs", at.at("paid_within_secs"));
      if (earlier !== undefined)
        at.at("paid_within_secs").report(`is set, as in ${earlier.text}; expected it once for an API`);
    }
    if (restricted !== undefined)
      at.report(
        `lets clients in without the permission that ${restricted.place.text} asks for; expected no access to an API with a restricted job`,
      );
    if (access.paidWithinSecs !== undefined && priced !== undefined)
      at.at("paid_within_secs").report(
        `is set, and ${priced.place.at("price").text} depends on the request; expected a fixed price`,
      );
  }
}

function parseKeys(text: string): readonly ApiKey[] | undefined {
  const lines = linesOf(text);
  const keys = lines.flatMap(([, line]) => {
    const [, name, sha256] = LINE.exec(line) ?? [];
    return name === undefined || sha256 === undefined ? [] : [{ name, sha256: sha256.toLowerCase() }];
  });
  return keys.length === lines.length && keys.length > 0 ? keys : undefined;
}

function keysFault(text: string): string {
  const wrong = linesOf(text).find(([, line]) => !LINE.test(line));
  return wrong === undefined ? "has no key" : `has something else in line ${wrong[0]}`;
}

/** Returns the lines that are for keys, with their numbers. */
function linesOf(text: string): (readonly [number: number, line: string])[] {
  return text
    .split("\n")
    .map((line, i) => [i + 1, line.trim()] as const)
    .filter(([, line]) => line !== "" && !line.startsWith("#"));
}
