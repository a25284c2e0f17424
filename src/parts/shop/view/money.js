/** @import { Job, Option } from "./data.js" */
import { exactAmount } from "../../../page/shared/format.js";

/** Names of networks by chain id. Those of `TEST_NETWORKS` have test money. @type {Record<string, string>} */
const NETWORKS = {
  1: "Ethereum",
  10: "OP Mainnet",
  14: "Flare",
  50: "XDC",
  100: "Gnosis",
  137: "Polygon",
  143: "Monad",
  988: "Stable",
  1329: "Sei",
  2201: "Stable Testnet",
  8453: "Base",
  42161: "Arbitrum",
  42220: "Celo",
  43114: "Avalanche",
};
/** @type {Record<string, string>} */
const TEST_NETWORKS = {
  51: "XDC Apothem",
  1328: "Sei Testnet",
  31337: "local test chain",
  43113: "Avalanche Fuji",
  80002: "Polygon Amoy",
  84532: "Base Sepolia",
  421614: "Arbitrum Sepolia",
  11142220: "Celo Sepolia",
  11155111: "Sepolia",
};

/** Returns the chain id of a CAIP-2 network. @param {string} network */
export function chainIdOf(network) {
  return Number(network.replace("eip155:", ""));
}

/** @param {string} network CAIP-2 */
export function networkName(network) {
  const id = network.replace("eip155:", "");
  return NETWORKS[id] ?? TEST_NETWORKS[id] ?? `chain ${id}`;
}

/** Reports whether a network's money is worth nothing. @param {string} network CAIP-2 */
export function isTestNetwork(network) {
  return TEST_NETWORKS[network.replace("eip155:", "")] !== undefined;
}

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

/** Formats what one run costs. @param {Job} job */
export function priceText({ price, settlement_options: options }) {
  const [first] = options;
  if (price === undefined && first === undefined) return "no price now";
  const ceiling = first !== undefined && options.every(({ scheme }) => scheme !== "exact") ? "up to " : "";
  return `${ceiling}${price ?? (first && tokenAmount(first, first.amount))}`;
}

/** Returns a job's title, or else its name or ids. @param {Job} job */
export function titleOf({ title, name, x402_endpoint: url }) {
  // As a number, a service's id could have lost digits.
  const [job, service] = url.split("/").reverse();
  return title ?? name ?? `Job ${job} of service ${service}`;
}
