/** @import { Job, Option } from "./data.js" */
import { exactAmount } from "../../../page/shared/format.js";

/**
 * Formats an amount in whole tokens, or in base units while the token's decimals are unknown.
 * @param {Pick<Option, "symbol" | "decimals">} token
 * @param {bigint | string} units
 */
export function tokenAmount({ symbol, decimals }, units) {
  return decimals === undefined
    ? `${units} base units of ${symbol}`
    : `${exactAmount(BigInt(units), decimals)} ${symbol}`;
}

/** Formats the price of one run. @param {Job} job */
export function priceText({ price, price_range: range, settlement_options: options }) {
  const [first] = options;
  if (range !== undefined) return `${range.min} to ${range.max}`;
  if (price === undefined && first === undefined) return "no price now";
  const ceiling = first !== undefined && options.every(({ scheme }) => scheme !== "exact") ? "up to " : "";
  return `${ceiling}${price ?? (first && tokenAmount(first, first.amount))}`;
}

/** Returns a job's title, or else its name or ids. @param {Job} job */
export function titleOf({ title, name, x402_endpoint: url }) {
  // The ids come from the URL, because a service's id can lose digits as a number.
  const [job, service] = url.split("/").reverse();
  return title ?? name ?? `Job ${job} of service ${service}`;
}
