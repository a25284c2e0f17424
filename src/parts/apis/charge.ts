import { parse } from "lossless-json";
import { parseDollarAmount, type UsdPrice } from "../../core/amounts.ts";
import type { ResultHeader } from "../../core/result-answer.ts";
import type { Charge } from "../../store/contract/work-queue.ts";
import { chargedUnits } from "../../store/rules/charges.ts";

const PERCENT = /^(\d{1,3})(?:\.(\d{1,2}))?%$/;
const UNITS = /^(?:0|[1-9]\d{0,77})$/;

/** Charge that an answer names, or the problem with it. */
export type ChargeReading = { readonly charge: Charge | undefined } | { readonly problem: string };

/** Amount that the buyer has signed for. */
interface Sold {
  /** Token units. */
  readonly ceiling: string;
  /** Price in dollars from which the ceiling was computed; undefined if the price is not in dollars. */
  readonly price: UsdPrice | undefined;
}

/** Headers that name the charge of an answer. */
const X_CHARGE = "x-charge";
const OVERRIDES = "settlement-overrides";

/**
 * Reads the charge of an answer: token units, `25%` of the ceiling, or `$0.004`.
 * @returns an undefined charge if the answer names no charge, so that the whole ceiling is charged
 */
export function readCharge(headers: readonly ResultHeader[], sold: Sold): ChargeReading {
  const named = headers.flatMap(([name, value]) => namedBy(name.toLowerCase(), value)?.trim() ?? []);
  const problem = named.map((text) => problemOf(text, sold)).find((one) => one !== undefined);
  if (problem !== undefined) return { problem };
  const [text = "", ...others] = named;
  const unitsOf = (one: string) => chargedUnits(sold.ceiling, chargeOf(one, sold));
  const other = others.find((one) => unitsOf(one) !== unitsOf(text));
  if (other !== undefined)
    return { problem: `the API charged ${text} and also ${other}; expected one charge` };
  return { charge: chargeOf(text, sold) };
}

/** @returns the problem of a charge */
function problemOf(text: string, sold: Sold): string | undefined {
  const charge = chargeOf(text, sold);
  const shown = text.slice(0, 100);
  if (charge === undefined)
    return `the API charged "${shown}"; expected token units, a percentage or dollars`;
  const isAbove =
    "units" in charge ? BigInt(charge.units) > BigInt(sold.ceiling) : charge.basisPoints > 10_000;
  return isAbove ? `the API charged ${shown}, more than the ceiling of ${sold.ceiling} units` : undefined;
}

/** @returns undefined for a text that is not a charge */
function chargeOf(text: string, { ceiling, price }: Sold): Charge | undefined {
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
 * Returns the amount in `Settlement-Overrides: {"amount": "50%"}`, or the text itself if it has another form, or if programs
 * could read different amounts from it.
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
