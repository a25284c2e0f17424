import { decimalText } from "./amounts.ts";

/** Price of one run of a job. */
export type Price = WeiPrice | UsdPrice;

export interface WeiPrice {
  readonly unit: "wei";
  readonly amount: bigint;
}

/** Price in dollars, which tokens that are pegged to the dollar pay one to one. */
export interface UsdPrice {
  readonly unit: "usd";
  /** 10^-18 dollars, so that amounts and digests are made of it as of wei. */
  readonly amount: bigint;
}

/** Price that depends on the request: a part makes it. */
export interface RequestPricing {
  /** Price of a request that asks for nothing, and the lowest price. */
  readonly from: UsdPrice;
  readonly upTo: UsdPrice;
  /** How the price comes about, for people: `$0.001 for each started KiB of the body`. */
  readonly rule: string;
  /** Headers that the price depends on, in lower case. */
  readonly headers: readonly string[];
}

/** Most decimal places of a price in dollars. */
export const PRICE_DECIMALS = 18;

/** Parses a price: `$0.01`. Returns undefined for anything else, for more decimal places, and for 0. */
export function parseDollars(text: string, maxDecimals = 6): UsdPrice | undefined {
  const price = parseDollarAmount(text, maxDecimals);
  return price?.amount === 0n ? undefined : price;
}

/** Parses dollars as {@link parseDollars} does, and 0 too. */
export function parseDollarAmount(text: string, maxDecimals = 6): UsdPrice | undefined {
  const [, whole, fraction = ""] = /^\$(0|[1-9][0-9]{0,17})(?:\.([0-9]{1,18}))?$/.exec(text) ?? [];
  if (whole === undefined || fraction.length > maxDecimals) return undefined;
  return { unit: "usd", amount: BigInt(whole + fraction.padEnd(PRICE_DECIMALS, "0")) };
}

/** Formats a price: `1000000000000000 wei`, `$0.01`. Dollars have two decimal places, or as many as they need. */
export function priceText({ unit, amount }: Price): string {
  if (unit === "wei") return `${amount} wei`;
  const [whole, fraction = ""] = decimalText(amount, PRICE_DECIMALS).split(".");
  return `$${whole}.${fraction.padEnd(2, "0")}`;
}
