/** @import { Configuration } from "./api.js" */
import { h } from "./dom.js";
import { exactAmount, shortAmount } from "./format.js";

/**
 * @typedef {object} TokenKey
 * @property {string} network
 * @property {string} asset
 * @property {string} symbol
 */

/** @type {Map<string, number>} */
const decimalsOf = new Map();

/** Identifies a token; symbols are not unique. @param {TokenKey} token */
export function tokenKey({ network, asset }) {
  return `${network} ${asset.toLowerCase()}`;
}

/** Remembers the decimals of configured tokens, also after they are removed from the configuration. */
export function learnTokens(/** @type {Configuration} */ { x402 }) {
  for (const token of x402?.accepted_tokens ?? []) decimalsOf.set(tokenKey(token), token.decimals);
}

/**
 * Formats an amount in whole tokens, or in base units if the token's decimals are unknown.
 * @param {TokenKey} token
 * @param {bigint} units
 */
export function amountText(token, units) {
  const decimals = decimalsOf.get(tokenKey(token));
  return decimals === undefined
    ? `${units} base units of ${token.symbol}`
    : `${shortAmount(units, decimals)} ${token.symbol}`;
}

/** @param {TokenKey} token @param {bigint} units */
function amountTitle(token, units) {
  const decimals = decimalsOf.get(tokenKey(token));
  const exact = decimals === undefined ? "" : `${exactAmount(units, decimals)} ${token.symbol}: `;
  return `${exact}${units} base units of ${token.asset} on ${token.network}`;
}

/** Element with a rounded amount and the exact one as its title. @param {TokenKey} token @param {bigint} units */
export function amount(token, units) {
  return h("span", { class: "amount", title: amountTitle(token, units) }, amountText(token, units));
}
