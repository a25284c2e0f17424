import { EVM_NETWORK_CHAIN_ID_MAP } from "@x402/evm/v1";

/**
 * Networks that the v1 client library knows. Its list is closed, and one entry outside it makes the client
 * refuse the whole 402, so names that only later libraries know are left out.
 */
const V1_CLIENT_NETWORKS = [
  "abstract",
  "abstract-testnet",
  "base-sepolia",
  "base",
  "avalanche-fuji",
  "avalanche",
  "iotex",
  "sei",
  "sei-testnet",
  "polygon",
  "polygon-amoy",
  "peaq",
  "story",
  "educhain",
  "skale-base-sepolia",
] as const satisfies readonly (keyof typeof EVM_NETWORK_CHAIN_ID_MAP)[];

const NAME_BY_CAIP2: ReadonlyMap<string, string> = new Map(
  V1_CLIENT_NETWORKS.map((name) => [`eip155:${EVM_NETWORK_CHAIN_ID_MAP[name]}`, name]),
);

/** The v1 name of a CAIP-2 network; undefined when v1 clients have none. */
export function v1NetworkName(network: string): string | undefined {
  return NAME_BY_CAIP2.get(network);
}

/** The CAIP-2 network of a v1 name; undefined for a name that v1 clients do not know. */
export function caip2Network(name: string): string | undefined {
  const id = V1_CLIENT_NETWORKS.find((known) => known === name);
  return id && `eip155:${EVM_NETWORK_CHAIN_ID_MAP[id]}`;
}
