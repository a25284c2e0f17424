/** Names of networks by chain id. The networks in `TEST_NETWORKS` have test money. @type {Record<string, string>} */
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
