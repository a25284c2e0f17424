import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import type { Anvil } from "../helpers/anvil.ts";

/** A local facilitator for the configuration of a test's gateway, with funded keys that only it uses. */
export interface LocalSettler {
  readonly addresses: readonly `0x${string}`[];
  /** Replaces `facilitator_url` in a configuration. */
  edit(config: string): string;
}

export async function localSettler(options: {
  readonly anvil: Anvil;
  /** Default: the chain's own. */
  readonly rpcUrl?: string;
  /** Default 1. */
  readonly keys?: number;
  readonly fundsWei?: bigint;
}): Promise<LocalSettler> {
  const { anvil, rpcUrl = anvil.rpcUrl, keys = 1, fundsWei = 10n ** 18n } = options;
  const privateKeys = Array.from({ length: keys }, () => generatePrivateKey());
  const addresses = privateKeys.map((key) => privateKeyToAccount(key).address);
  for (const address of addresses) await anvil.client.setBalance({ address, value: fundsWei });
  const signers = privateKeys.map((key) => `{ private_key = "${key}" }`);
  const table = `
[[x402.facilitators]]
local = true
signer = [${signers.join(", ")}]
rpc_urls = { "eip155:${anvil.chainId}" = "${rpcUrl}" }
max_fee_per_gas_gwei = "100"
min_balance = "0.005"
`;
  return { addresses, edit: (config) => `${config.replace(/^facilitator_url = .*$/m, "")}${table}` };
}
