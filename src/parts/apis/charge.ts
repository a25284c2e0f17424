import { isDeepStrictEqual } from "node:util";
import { parse } from "lossless-json";
import { parseDollarAmount, type UsdPrice } from "../../core/price.ts";
import type { ResultHeader } from "../../core/result-answer.ts";
import type { Charge } from "../../store/contract/work-queue.ts";

const PERCENT = /^(\d{1,3})(?:\.(\d{1,2}))?%$/;
const UNITS = /^(?:0|[1-9]\d{0,77})$/;

/** Charge that an answer names, or the problem with it. */
export type ChargeReading = { readonly charge: Charge | undefined } | { readonly problem: string };

/** Headers that name the charge of an answer. */
const X_CHARGE = "x-charge";
const OVERRIDES = "settlement-overrides";

/**
 * Reads the charge of an answer: token units, `25%` of the ceiling, or `$0.004`.
 * @param sold ceiling in token units, and the price that it stands for, if that is in dollars
 * @returns an undefined charge if the answer names none: then the whole ceiling is charged
 */
export function readCharge(
  headers: readonly ResultHeader[],
  sold: { readonly ceiling: string; readonly price: UsdPrice | undefined },
): ChargeReading {
  const named = headers.flatMap(([name, value]) => namedBy(name.toLowerCase(), value) ?? []);
  const [text, ...others] = named.map((value) => value.trim());
  if (text === undefined) return { charge: undefined };
  const charge = chargeOf(text, sold);
  if (charge === undefined)
    return {
      problem: `the API charged "${text.slice(0, 100)}"; expected token units, a percentage or dollars`,
    };
  const other = others.find((next) => !isDeepStrictEqual(chargeOf(next, sold), charge));
  if (other !== undefined)
    return { problem: `the API charged ${text} and also "${other.slice(0, 100)}"; expected one charge` };
  const isAbove =
    "units" in charge ? BigInt(charge.units) > BigInt(sold.ceiling) : charge.basisPoints > 10_000;
  return isAbove
    ? { problem: `the API charged ${text}, more than the ceiling of ${sold.ceiling} units` }
    : { charge };
}

function chargeOf(
  text: string,
  { ceiling, price }: { readonly ceiling: string; readonly price: UsdPrice | undefined },
): Charge | undefined {
  if (UNITS.test(text)) return { units: text };
  const [, whole, part = ""] = PERCENT.exec(text) ?? [];
  if (whole !== undefined) return { basisPoints: Number(whole) * 100 + Number(part.padEnd(2, "0")) };
  const dollars = parseDollarAmount(text);
  if (dollars === undefined || price === undefined) return undefined;
  const units = BigInt(ceiling) * dollars.amount;
  return { units: String((units + price.amount - 1n) / price.amount) };
}

/** @returns undefined for a header that does not name a charge */
function namedBy(name: string, value: string): string | undefined {
  if (name === X_CHARGE) return value;
  return name === OVERRIDES ? overrideOf(value) : undefined;
}

/**
 * Returns the amount in `Settlement-Overrides: {"amount": "50%"}`, and the text itself if it is nothing like that, or if programs may
 * read different amounts in it.
 */
function overrideOf(text: string): string | undefined {
  try {
    const { amount } = parse(text, undefined, { parseNumber: String, onDuplicateKey: refuse }) as {
      readonly amount?: unknown;
    };
    return amount === undefined ? undefined : String(amount);
  } catch {
    return text;
  }
}

function refuse({ key }: { readonly key: string }): never {
  throw new SyntaxError(`${key} is there twice`);
}
