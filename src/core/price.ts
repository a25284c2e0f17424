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

const DECIMALS = 18;

/** Parses a price of at most 6 decimal places: `$0.01`. Returns undefined for anything else, and for 0. */
export function parseDollars(text: string): UsdPrice | undefined {
  const [, whole, fraction = ""] = /^\$(0|[1-9][0-9]{0,17})(?:\.([0-9]{1,6}))?$/.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const amount = BigInt(whole + fraction.padEnd(DECIMALS, "0"));
  return amount === 0n ? undefined : { unit: "usd", amount };
}

/** Formats a price: `1000000000000000 wei`, `$0.01`. Dollars have two decimal places, or as many as they need. */
export function priceText({ unit, amount }: Price): string {
  if (unit === "wei") return `${amount} wei`;
  const [whole, fraction = ""] = decimalText(amount, DECIMALS).split(".");
  return `$${whole}.${fraction.padEnd(2, "0")}`;
}
