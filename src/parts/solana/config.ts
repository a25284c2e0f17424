import type { TokenMethod } from "../../config/token-method.ts";
import type { NetworkKind } from "../../core/addresses.ts";
import { isAddress } from "./addresses.ts";

const MAINNET = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
const DEVNET = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
const TESTNET = "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z";

/** The clusters, as in @x402/svm 2.27. A test compares the two. */
const SOLANA: NetworkKind = {
  title: "Solana",
  names: new Map([
    ["solana", MAINNET],
    ["solana-devnet", DEVNET],
    ["solana-testnet", TESTNET],
  ]),
  has: (network) => /^solana:[1-9A-HJ-NP-Za-km-z]{32}$/.test(network),
  address: "an account of Solana: 32 bytes in base58",
  isAddress,
};

const USDC = { symbol: "USDC", decimals: 6, hasEip3009: false } as const;

/** Payments on Solana in the configuration. */
export const solanaTokens: TokenMethod = {
  name: "solana",
  title: "Solana",
  endsSoon: true,
  networks: SOLANA,
  presets: [
    { ...USDC, network: MAINNET, asset: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v" },
    { ...USDC, network: DEVNET, asset: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU" },
    { ...USDC, network: TESTNET, asset: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU" },
  ],
  check({ rpcUrl, requireOnchainConfirmation, confirmations, eip3009Name, eip3009Version }, { place }) {
    if (rpcUrl === undefined && !place.at("rpc_url").isReported)
      place
        .at("rpc_url")
        .reportMissing("is missing; expected a JSON-RPC of the cluster, which shows what was paid");
    if (requireOnchainConfirmation === false)
      place
        .at("require_onchain_confirmation")
        .report(
          "is false, which a token on Solana cannot be; expected it left out: only a finalized block counts",
        );
    if (confirmations !== undefined && confirmations !== 1)
      place
        .at("confirmations")
        .report("is set for a token on Solana; expected it left out: only a finalized block counts");
    if (eip3009Name !== undefined || eip3009Version !== undefined)
      place
        .at("eip3009_name")
        .report("is set for a token on Solana, which has no EIP-712 domain; expected it left out");
  },
};
