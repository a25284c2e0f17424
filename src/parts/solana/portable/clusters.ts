/** A cluster of Solana. */
export interface Cluster {
  /** CAIP-2. */
  readonly network: string;
  /** Name that x402 has for it. */
  readonly name: string;
  /** Name for people. */
  readonly title: string;
  /** Name that wallets have for it. */
  readonly chain: string;
  /** True if its money is worth nothing. */
  readonly isTest: boolean;
}

/** The clusters, as in @x402/svm 2.27 and @solana/wallet-standard-chains. A test compares the networks with the former. */
export const CLUSTERS = {
  mainnet: {
    network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
    name: "solana",
    title: "Solana",
    chain: "solana:mainnet",
    isTest: false,
  },
  devnet: {
    network: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
    name: "solana-devnet",
    title: "Solana Devnet",
    chain: "solana:devnet",
    isTest: true,
  },
  testnet: {
    network: "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z",
    name: "solana-testnet",
    title: "Solana Testnet",
    chain: "solana:testnet",
    isTest: true,
  },
} as const satisfies Readonly<Record<string, Cluster>>;

/** Returns a cluster by its CAIP-2 network. A network that is not listed is a private validator. */
export function clusterOf(network: string): Cluster {
  const known = Object.values(CLUSTERS).find((cluster) => cluster.network === network);
  const own = {
    network,
    name: network,
    title: "local Solana cluster",
    chain: "solana:localnet",
    isTest: true,
  };
  return known ?? own;
}

/** Name and explorer of a cluster; undefined for another network. A private validator has no explorer. */
export function describeCluster(network: string) {
  if (!network.startsWith("solana:")) return undefined;
  const { title, chain } = clusterOf(network);
  const [, cluster] = chain.split(":");
  const query = cluster === "mainnet" ? "" : `?cluster=${cluster}`;
  const urlOf = (path: string) => `https://explorer.solana.com/${path}/{}${query}`;
  const explorer = { transactionUrl: urlOf("tx"), accountUrl: urlOf("address") };
  return { name: title, explorer: cluster === "localnet" ? undefined : explorer };
}
