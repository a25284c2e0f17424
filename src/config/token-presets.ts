import type { NetworkKind } from "../core/addresses.ts";
import { oneSpelling } from "../core/payment.ts";
/* Facts about tokens and networks, as in @x402/evm 2.27: DEFAULT_ASSETS and EVM_NETWORK_CHAIN_ID_MAP. The facts are
   copied because loading the SDK takes longer than the rest of a command. A test compares the copy with the SDK. */

/** A token that `token = "SYMBOL"` stands for. All of them are pegged to the US dollar. */
export interface TokenPreset {
  /** CAIP-2. */
  readonly network: string;
  readonly symbol: string;
  readonly asset: string;
  readonly decimals: number;
  /** EIP-712 domain of the token; undefined if only EIP-2612 would need the domain and the token does not support EIP-2612. */
  readonly eip3009Name?: string;
  readonly eip3009Version?: string;
  readonly hasEip3009: boolean;
}

/** A preset on an EVM chain. */
export type EvmTokenPreset = TokenPreset & { readonly asset: `0x${string}` };

type Row = readonly [
  network: string,
  symbol: string,
  asset: `0x${string}`,
  decimals: number,
  eip3009Name: string | undefined,
  eip3009Version: string | undefined,
  hasEip3009?: false,
];

const ROWS: readonly Row[] = [
  ["eip155:8453", "USDC", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", 6, "USD Coin", "2"],
  ["eip155:84532", "USDC", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", 6, "USDC", "2"],
  ["eip155:1", "USDC", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", 6, "USD Coin", "2"],
  ["eip155:43114", "USDC", "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", 6, "USD Coin", "2"],
  ["eip155:4326", "MegaUSD", "0xFAfDdbb3FC7688494971a79cc65DCa3EF82079E7", 18, "MegaUSD", "1", false],
  ["eip155:143", "USDC", "0x754704Bc059F8C67012fEd69BC8A327a5aafb603", 6, "USDC", "2"],
  ["eip155:988", "USDT0", "0x779Ded0c9e1022225f8E0630b35a9b54bE713736", 6, "USDT0", "1"],
  ["eip155:2201", "USDT0", "0x78Cf24370174180738C5B8E352B6D14c83a6c9A9", 6, "USDT0", "1"],
  ["eip155:137", "USDC", "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", 6, "USD Coin", "2"],
  ["eip155:42161", "USDC", "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", 6, "USD Coin", "2"],
  ["eip155:421614", "USDC", "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", 6, "USD Coin", "2"],
  ["eip155:31612", "mUSD", "0xdD468A1DDc392dcdbEf6db6e34E89AA338F9F186", 18, "Mezo USD", "1", false],
  ["eip155:31611", "mUSD", "0x118917a40FAF1CD7a13dB0Ef56C86De7973Ac503", 18, "Mezo USD", "1", false],
  ["eip155:723487", "SBC", "0x33ad9e4BD16B69B5BFdED37D8B5D9fF9aba014Fb", 6, "Stable Coin", "1", false],
  ["eip155:72344", "SBC", "0x33ad9e4BD16B69B5BFdED37D8B5D9fF9aba014Fb", 6, "Stable Coin", "1", false],
  ["eip155:36900", "USDC.e", "0x9cb8142aEBBcdc60AF7c97Af897A67A8f3CA71C2", 6, "USDC.e", "2"],
  ["eip155:190415", "USDC.e", "0x401eCb1D350407f13ba348573E5630B83638E30D", 6, "Bridged USDC", "2"],
  ["eip155:181228", "USDC.e", "0x401eCb1D350407f13ba348573E5630B83638E30D", 6, "Bridged USDC", "2"],
  ["eip155:50", "USDC", "0xfA2958CB79b0491CC627c1557F441eF849Ca8eb1", 6, "USDC", "2"],
  ["eip155:51", "USDC", "0xb5AB69F7bBada22B28e79C8FFAECe55eF1c771D4", 6, "USDC", "2"],
  ["eip155:38833", "USDC", "0xA5b8BF902b2844dA17d4506cc827F7F1681735E7", 6, undefined, undefined, false],
  ["eip155:14", "USDT0", "0xe7cd86e13AC4309349F30B3435a9d337750fC82D", 6, "USD₮0", "1"],
  ["eip155:42220", "USDC", "0xcebA9300f2b948710d2653dD7B07f33A8B32118C", 6, "USDC", "2"],
  ["eip155:42220", "USDT", "0x48065fbBE25f71C9282ddf5e1cD6D6A887483D5e", 6, "Tether USD", "1"],
  ["eip155:42220", "USAT", "0xD2ab3C9A02DBBAB236BfEC45D1d755DF4267F771", 6, "Tether America USD", "1"],
  ["eip155:11142220", "USDC", "0x01C5C0122039549AD1493B8220cABEdD739BC44E", 6, "USDC", "2"],
  ["eip155:1329", "USDC", "0xe15fC38F6D8c56aF07bbCBe3BAf5708A2Bf42392", 6, "USDC", "2"],
  ["eip155:1328", "USDC", "0x4fCF1784B31630811181f670Aea7A7bEF803eaED", 6, "USDC", "2"],
];

export const TOKEN_PRESETS: readonly EvmTokenPreset[] = ROWS.map((row) => {
  const [network, symbol, asset, decimals, eip3009Name, eip3009Version, hasEip3009 = true] = row;
  const domain = eip3009Name && eip3009Version && { eip3009Name, eip3009Version };
  return { network, symbol, asset, decimals, ...domain, hasEip3009 };
});

/** Fields of a token that both a preset and an entry of the configuration have. */
interface TokenPlace {
  readonly network?: string | undefined;
  readonly asset?: string | undefined;
}

export function isSameToken(one: TokenPlace, other: TokenPlace): boolean {
  return one.network === other.network && oneSpelling(one.asset ?? "") === oneSpelling(other.asset ?? "");
}

/** Chain IDs by the name that x402 has, or once had, for the network. */
export const CHAIN_IDS_BY_NAME: ReadonlyMap<string, number> = new Map([
  ["ethereum", 1],
  ["sepolia", 11155111],
  ["abstract", 2741],
  ["abstract-testnet", 11124],
  ["base-sepolia", 84532],
  ["base", 8453],
  ["avalanche-fuji", 43113],
  ["avalanche", 43114],
  ["iotex", 4689],
  ["sei", 1329],
  ["sei-testnet", 1328],
  ["polygon", 137],
  ["polygon-amoy", 80002],
  ["peaq", 3338],
  ["story", 1514],
  ["educhain", 41923],
  ["skale-base-sepolia", 324705682],
  ["megaeth", 4326],
  ["monad", 143],
  ["stable", 988],
  ["stable-testnet", 2201],
  ["celo", 42220],
  ["flare", 14],
]);

/** Test networks whose x402 names do not show that they are for tests, and the chains of local nodes. */
const OTHER_TEST_NETWORKS = [421614, 31611, 72344, 51, 11142220, 181228, 1337, 31337].map(
  (id) => `eip155:${id}`,
);

/**
 * Returns the name of a CAIP-2 network, or the network itself if it has no name.
 * @param kinds networks that are not EVM chains
 */
export function networkName(network: string, kinds: readonly NetworkKind[] = []): string {
  const known = [...CHAIN_IDS_BY_NAME].find(([, id]) => `eip155:${id}` === network);
  const other = kinds.flatMap(({ names }) => [...names]).find(([, id]) => id === network);
  return (known ?? other)?.[0] ?? network;
}

/** Returns true if tokens of a CAIP-2 network are worth nothing. */
export function isTestNetwork(network: string, kinds: readonly NetworkKind[] = []): boolean {
  const isNamed = /sepolia|testnet|devnet|fuji|amoy/.test(networkName(network, kinds));
  return isNamed || OTHER_TEST_NETWORKS.includes(network);
}
