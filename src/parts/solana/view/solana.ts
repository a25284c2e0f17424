import type { Chains } from "../../../page/tools/chains.ts";
import { clusterOf } from "../portable/clusters.ts";
import { findWallets } from "./wallets.ts";

/** The clusters of Solana on the payment pages of the shop. */
export const CHAINS: Chains = {
  networkName: (network) => clusterOf(network).title,
  isTestNetwork: (network) => clusterOf(network).isTest,
  findWallets,
};
