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

/** Two tokens can have one symbol. @param {TokenKey} token */
export function tokenKey({ network, asset }) {
  return `${network} ${asset.toLowerCase()}`;
}

/** Learns the decimals of the configured tokens; those of a token that is gone from there stay known. */
export function learnTokens(/** @type {Configuration} */ { x402 }) {
  for (const token of x402?.accepted_tokens ?? []) decimalsOf.set(tokenKey(token), token.decimals);
}

/**
 * An amount in whole tokens, with the exact one in the title. A token that is not configured any more is shown in its
 * smallest units.
 * @param {TokenKey} token
 * @param {bigint} units
 */
export function amountText(token, units) {
  const decimals = decimalsOf.get(tokenKey(token));
  return decimals === undefined
    ? `${units} units of ${token.symbol}`
    : `${shortAmount(units, decimals)} ${token.symbol}`;
}

/** @param {TokenKey} token @param {bigint} units */
function amountTitle(token, units) {
  const decimals = decimalsOf.get(tokenKey(token));
  const exact = decimals === undefined ? "" : `${exactAmount(units, decimals)} ${token.symbol}: `;
  return `${exact}${units} units of ${token.asset} on ${token.network}`;
}

/** @param {TokenKey} token @param {bigint} units */
export function amount(token, units) {
  return h("span", { class: "amount", title: amountTitle(token, units) }, amountText(token, units));
}
