import {
  adi,
  arbitrum,
  arbitrumSepolia,
  avalanche,
  base,
  baseSepolia,
  celo,
  celoSepolia,
  flare,
  hpp,
  hppSepolia,
  mainnet,
  monad,
  polygon,
  sei,
  seiTestnet,
  stable,
  stableTestnet,
  xdc,
  xdcTestnet,
} from "viem/chains";

/** Networks whose tokens jobgate knows. */
const CHAINS = [
  ...[
    adi,
    arbitrum,
    arbitrumSepolia,
    avalanche,
    base,
    baseSepolia,
    celo,
    celoSepolia,
    flare,
    hpp,
    hppSepolia,
  ],
  ...[mainnet, monad, polygon, sei, seiTestnet, stable, stableTestnet, xdc, xdcTestnet],
];

/** Returns a public JSON-RPC of a CAIP-2 network, which needs no account. */
export function publicRpcUrl(network: string): string | undefined {
  return CHAINS.find(({ id }) => `eip155:${id}` === network)?.rpcUrls.default.http[0];
}
