import type { Address } from "viem";
import { accounts } from "../helpers/accounts.ts";
import type { PaidGatewayOptions } from "./paid-gateway.ts";

export const MPP_KEY = "5b1f0ad9c3e7426880b4f1d2a697c35e".repeat(2);

/** Adds the first token of a configuration a second time, paid by Permit2, and then a token that has ERC-20 only. */
export function withPermit2(config: string, plainToken?: Address): string {
  const start = config.indexOf("[[x402.accepted_tokens]]");
  const end = config.indexOf("[job_pricing.1]");
  const usdc = config
    .slice(start, end)
    .replaceAll('transfer_method = "eip3009"', 'transfer_method = "permit2"');
  const plain = usdc
    .replace(/^asset = .*/m, `asset = "${plainToken}"`)
    .replace(/eip3009_name.*\neip3009_version.*\n/, "");
  return config.slice(0, end) + usdc + (plainToken === undefined ? "" : plain) + config.slice(end);
}

/** Configuration of a paid gateway, as TOML. */
export function configOf(options: PaidGatewayOptions, facilitatorUrl: string, rpcUrl: string): string {
  const { parts, setUp, confirmations = 1, facilitatorTimeoutSecs = 10 } = options;
  const { maxPending = 10_000, leaseSecs = 60, rate = 'rate_per_native_unit = "3200.00"' } = options;
  const tokens = (options.tokens ?? [parts.usdc]).map(
    ({ address, name, version, decimals }) => `
[[x402.accepted_tokens]]
network = "eip155:${parts.anvil.chainId}"
asset = "${address}"
symbol = "USDC"
decimals = ${decimals}
pay_to = "${accounts.payTo.address}"
${rate}
markup_bps = 200
transfer_method = "eip3009"
eip3009_name = "${name}"
eip3009_version = "${version}"
${setUp === "rpc_url" ? `rpc_url = "${rpcUrl}"\nconfirmations = ${confirmations}` : ""}`,
  );
  return `
service_id = 1
[store]
url = "${options.storeUrl ?? "sqlite:jobgate.db"}"
max_pending = ${maxPending}
[runner]
bind_address = "127.0.0.1:0"
retry_base_secs = 0.05
lease_secs = ${leaseSecs}
[operator]
bind_address = "127.0.0.1:0"
[mcp]
enabled = true

[a2a]
enabled = true
[x402]
bind_address = "127.0.0.1:0"
public_url = "http://127.0.0.1:8402"
facilitator_url = "${facilitatorUrl}"
facilitator_timeout_secs = ${facilitatorTimeoutSecs}
default_invocation_mode = "public_paid"
[x402.mpp]
realm = "jobgate.example"
secret_key = "${MPP_KEY}"
${tokens.join("\n")}
[job_pricing.1]
0 = "1000000000000000"
1 = "1000000000000000"
`;
}

/** Signs offers and receipts with the key of the payments' recipient, as x402's extension recommends. */
export function withReceipts(config: string): string {
  return `${config}\n[x402.receipts]\nsigner = { private_key = "${accounts.payTo.privateKey}" }\n`;
}
