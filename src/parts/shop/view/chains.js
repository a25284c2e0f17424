/** @import { Chains } from "../../../page/tools/chains.ts" */
/** @import { Job } from "./data.js" */
import * as ofParts from "../../../page/part-chains.ts";
import * as evm from "./evm-networks.js";
import { findWallets } from "./evm-wallets.js";

/** Loads further chains, by their CAIP-2 namespace. @type {Readonly<Record<string, () => Promise<{ CHAINS: Chains }>>>} */
const LOADERS = ofParts;

/** @type {Map<string, Chains>} */
const loaded = new Map([
  ["eip155", { networkName: evm.networkName, isTestNetwork: evm.isTestNetwork, findWallets }],
]);

/** Returns the CAIP-2 namespace of a network, which names a kind of chains. @param {string} network */
export function namespaceOf(network) {
  return network.replace(/:.*/, "");
}

/** Loads the chains that jobs are sold on. A kind that this build lacks stays unknown. @param {readonly Job[]} jobs */
export async function loadChains(jobs) {
  const networks = jobs.flatMap(({ settlement_options: options }) => options.map(({ network }) => network));
  const missing = new Set(networks.map(namespaceOf).filter((namespace) => !loaded.has(namespace)));
  const loading = [...missing].map(async (namespace) => {
    const found = await LOADERS[namespace]?.();
    if (found !== undefined) loaded.set(namespace, found.CHAINS);
  });
  // If a kind of chains cannot be loaded, its jobs are sold only to programs.
  await Promise.allSettled(loading);
}

/** Returns the chains of a network's kind; undefined for a kind that is not loaded. @param {string} network CAIP-2 */
export function chainsOf(network) {
  return loaded.get(namespaceOf(network));
}

/** @param {string} network CAIP-2 */
export function networkName(network) {
  return chainsOf(network)?.networkName(network) ?? network;
}

/** Reports whether a network's money is worth nothing. @param {string} network CAIP-2 */
export function isTestNetwork(network) {
  return chainsOf(network)?.isTestNetwork(network) ?? false;
}
