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
 * in exact integers. The result can be 0, which gives the job away, or above {@link MAX_U64}, which no offer can ask
 * for; the configuration refuses prices that lead to either.
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

/** Formats base units of a token for people: `0.64 USDC`. Says that they are base units if the decimals are unknown. */
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
