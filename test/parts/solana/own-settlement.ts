import { solanaKeyBytes } from "../../helpers/solana-cluster.ts";
import type { SolanaParts } from "./harness.ts";

/** Number of the account that pays for transactions. */
export const FEE_PAYER = 4;

/** Returns the configuration of a shop whose payments jobgate settles itself. */
export async function settledHere(
  config: string,
  { cluster }: SolanaParts,
  { minBalance = "0.001" }: { readonly minBalance?: string } = {},
): Promise<string> {
  const key = `[${[...(await solanaKeyBytes(FEE_PAYER))].join(",")}]`;
  return config.replace(
    /\[\[x402\.facilitators\]\]\nurl = .*\n/,
    `[[x402.facilitators]]
local = true
fee_payers = { solana-devnet = "${key}" }
rpc_urls = { solana-devnet = "${cluster.rpcUrl}" }
min_balance = "${minBalance}"
`,
  );
}
