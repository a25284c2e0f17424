/** Chain IDs by the symbol of the coin that pays for gas on the chain, as viem lists them. */
export const CHAIN_IDS_BY_COIN: ReadonlyMap<string, readonly number[]> = new Map([
  ["ETH", [1, 10, 8453, 42161, 2741, 4326, 11155111, 11155420, 84532, 421614, 11124]],
  ["AVAX", [43114, 43113]],
  ["POL", [137, 80002]],
  ["CELO", [42220]],
  ["SEI", [1329, 1328]],
  ["MON", [143]],
  ["FLR", [14]],
  ["IOTX", [4689]],
]);

/** Returns the symbol of the coin that pays for gas on a CAIP-2 network; `native units` if the coin is not known. */
export function coinOf(network: string): string {
  const known = [...CHAIN_IDS_BY_COIN].find(([, ids]) => ids.some((id) => `eip155:${id}` === network));
  return known?.[0] ?? "native units";
}
