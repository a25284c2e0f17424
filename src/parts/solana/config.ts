import type { TokenMethod } from "../../config/token-method.ts";
import { isSameToken } from "../../config/token-presets.ts";
import { oneOf } from "../../config/value-types.ts";
import type { NetworkKind } from "../../core/addresses.ts";
import type { Commitment } from "./chain.ts";
import { KEY_FORMS, readKey } from "./key.ts";
import { isAddress } from "./portable/addresses.ts";
import { CLUSTERS } from "./portable/clusters.ts";

const { mainnet, devnet, testnet } = CLUSTERS;

const SOLANA: NetworkKind = {
  title: "Solana",
  names: new Map(Object.values(CLUSTERS).map(({ name, network }) => [name, network])),
  has: (network) => /^solana:[1-9A-HJ-NP-Za-km-z]{32}$/.test(network),
  address: "an account of Solana: 32 bytes in base58",
  isAddress,
  feePayers: { expected: KEY_FORMS, accountOf: (key) => readKey(key)?.address },
};

const USDC = { symbol: "USDC", decimals: 6, hasEip3009: false } as const;

const COMMITMENTS = ["confirmed", "finalized"] as const satisfies readonly Commitment[];

/** Returns the commitment that the block of a payment in this token must have before a job is sold for it. */
export function commitmentOf(token: object): Commitment {
  return (token as { readonly commitment?: Commitment }).commitment ?? "confirmed";
}

/** Payments on Solana in the configuration. */
export const solanaTokens: TokenMethod = {
  name: "solana",
  title: "Solana",
  // A blockhash is good for 150 blocks, about a minute.
  endsSoon: { maxRunSecs: 20, marginSecs: 15 },
  networks: SOLANA,
  keys: { shape: { commitment: oneOf(COMMITMENTS).optional() }, defaults: { commitment: "confirmed" } },
  presets: [
    { ...USDC, network: mainnet.network, asset: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v" },
    { ...USDC, network: devnet.network, asset: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU" },
    { ...USDC, network: testnet.network, asset: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU" },
  ],
  check(token, { place, tokens }) {
    const { rpcUrl, requireOnchainConfirmation, confirmations, eip3009Name, eip3009Version } = token;
    const differs = tokens.some(
      (other) => other && isSameToken(other, token) && commitmentOf(other) !== commitmentOf(token),
    );
    if (differs)
      place
        .at("commitment")
        .report("differs from the value in the token's other entry; expected the same for both");
    if (rpcUrl === undefined && !place.at("rpc_url").isReported)
      place
        .at("rpc_url")
        .reportMissing("is missing; expected a JSON-RPC of the cluster, which shows what was paid");
    if (requireOnchainConfirmation === false)
      place
        .at("require_onchain_confirmation")
        .report(
          "is false, which a token on Solana cannot be; expected it left out: only a block of the cluster counts",
        );
    if (confirmations !== undefined && confirmations !== 1)
      place.at("confirmations").report("is set for a token on Solana; expected it left out, or commitment");
    if (eip3009Name !== undefined || eip3009Version !== undefined)
      place
        .at("eip3009_name")
        .report("is set for a token on Solana, which has no EIP-712 domain; expected it left out");
  },
};
