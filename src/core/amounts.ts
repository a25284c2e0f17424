/** Terms that turn a price in wei into an amount of one token. */
export interface TokenTerms {
  /** Decimal string > 0, any number of digits: whole tokens for one native unit (10^18 wei). */
  readonly ratePerNativeUnit: string;
  /** Basis points added to the rate. */
  readonly markupBps: number;
  /** Decimals of the token. */
  readonly decimals: number;
}

/** Largest id, and largest amount that fits a settlement option. */
export const MAX_U64 = 2n ** 64n - 1n;

/**
 * Amount that a client pays for a job: floor(price_wei · rate · (10000 + markup_bps) · 10^decimals / (10000 · 10^18)),
 * in exact integers. A result of 0 would give the job away, and no offer can ask for more than {@link MAX_U64}. The
 * configuration refuses prices that lead to 0 or to more than {@link MAX_U64}.
 * @returns the token's smallest units
 */
export function tokenAmount(priceWei: bigint, terms: TokenTerms): bigint {
  return amountAt(unitsPerWei(terms), priceWei);
}

/** Exact value of one wei in a token's smallest units. */
export interface UnitsPerWei {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** Returns what {@link tokenAmount} returns for the terms of the fraction. */
export function amountAt({ numerator, denominator }: UnitsPerWei, priceWei: bigint): bigint {
  return (priceWei * numerator) / denominator;
}

/** Lowest price whose amount is above 0. */
export function smallestPriceWei(terms: TokenTerms): bigint {
  const { numerator, denominator } = unitsPerWei(terms);
  return (denominator + numerator - 1n) / numerator;
}

/** Highest price whose amount fits u64. */
export function largestPriceWei(terms: TokenTerms): bigint {
  const { numerator, denominator } = unitsPerWei(terms);
  return ((MAX_U64 + 1n) * denominator - 1n) / numerator;
}

export function unitsPerWei(terms: TokenTerms): UnitsPerWei {
  const [whole = "", fraction = ""] = terms.ratePerNativeUnit.split(".");
  return {
    numerator: BigInt(whole + fraction) * BigInt(10_000 + terms.markupBps) * 10n ** BigInt(terms.decimals),
    denominator: 10_000n * 10n ** 18n * 10n ** BigInt(fraction.length),
  };
}

/**
 * Formats base units of a token for people: `0.64 USDC`. If the decimals are unknown, the text says that the amount is
 * in base units.
 */
export function amountText(units: string | bigint, symbol: string, decimals: number | undefined): string {
  if (decimals === undefined) return `${units} base units of ${symbol}`;
  return `${decimalText(units, decimals)} ${symbol}`;
}

/** Formats smallest units as a decimal number: 640000 with 6 decimals is `0.64`. */
export function decimalText(units: string | bigint, decimals: number): string {
  const digits = String(units).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return `${whole}${fraction === "" ? "" : `.${fraction}`}`;
}

/** Price of one run of a job. */
export type Price = WeiPrice | UsdPrice;

export interface WeiPrice {
  readonly unit: "wei";
  readonly amount: bigint;
}

/** Price in dollars. A token that is pegged to the dollar pays it one to one. */
export interface UsdPrice {
  readonly unit: "usd";
  /** Price in units of 10^-18 dollars, so that amounts and digests are computed as for a price in wei. */
  readonly amount: bigint;
}

/** Price that depends on the request. A part of the build defines it. */
export interface RequestPricing {
  /** Lowest price. A request that asks for nothing has this price. */
  readonly from: UsdPrice;
  readonly upTo: UsdPrice;
  /** Text for people about the price: `$0.001 for each started KiB of the body`. */
  readonly rule: string;
  /** Headers that the price depends on, in lower case. */
  readonly headers: readonly string[];
  /** True if a request that has a body or a query, but lacks these headers, has no price. */
  readonly needsHeaders?: boolean;
  /** Media type of the bodies that the price reads. Undefined if the price reads bodies of any type. */
  readonly contentType?: string;
  /** JSON Schema of the bodies that the price can read, as JSON. Undefined if the price reads any body. */
  readonly bodySchema?: string;
}

/** Largest number of decimal places of a price in dollars. */
export const PRICE_DECIMALS = 18;

/** Parses a price: `$0.01`. Returns undefined for anything else, for more decimal places, and for 0. */
export function parseDollars(text: string, maxDecimals = 6): UsdPrice | undefined {
  const price = parseDollarAmount(text, maxDecimals);
  return price?.amount === 0n ? undefined : price;
}

/** Parses dollars as {@link parseDollars} does, and also accepts 0. */
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
