import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import type { TestAccount } from "../helpers/accounts.ts";
import { type PaidParts, type Sent, transfersFrom } from "./paid-parts.ts";

/** Points of a refund at which a process is killed. */
export const REFUND_POINTS = [
  "refunds/before-sending",
  "refunds/after-sending",
  "transactions/before-journal",
  "transactions/after-journal",
  "transactions/after-broadcast",
  "refunds/before-end",
] as const;

/** An account that pays failed jobs back, and the configuration of a gateway that does so. */
export interface RefundAccount {
  readonly address: `0x${string}`;
  readonly owner: TestAccount;
  /** Job 0 is refunded when it fails; the operator is asked about job 1. */
  edit(config: string): string;
  /** Transfers that the account has sent. */
  transfers(): Promise<Sent[]>;
}

export async function refundAccount(parts: PaidParts): Promise<RefundAccount> {
  const key = generatePrivateKey();
  const owner: TestAccount = { ...privateKeyToAccount(key), privateKey: key };
  const { address } = owner;
  await parts.anvil.client.setBalance({ address, value: 10n ** 18n });
  const settings = `
[[jobs]]
job_index = 0
on_failure = "refund"
[[jobs]]
job_index = 1
on_failure = "ask"
[x402.refunds]
signer = { private_key = "${key}" }
max_fee_per_gas_gwei = "100"
`;
  return {
    address,
    owner,
    edit: (config) => `${config}${settings}`,
    transfers: () => transfersFrom(parts, [address]),
  };
}
