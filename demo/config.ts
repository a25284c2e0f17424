/** Service and job in the path of a paid request. */
export const PAID_JOB = { serviceId: 1, jobIndex: 0 } as const;
/** Path and job of the webhook. */
export const WEBHOOK = { path: "/hooks/alerts", jobId: 30 } as const;

/**
 * Configuration of the demo. A job costs 0.0001 ether: 0.3264 USDC at 3200 USDC per ether and 2 % markup.
 */
export function demoConfig(parts: {
  readonly facilitatorUrl: string;
  readonly rpcUrl: string;
  readonly usdcAddress: string;
  readonly payToAddress: string;
}): string {
  const { facilitatorUrl, rpcUrl, usdcAddress, payToAddress } = parts;
  return `\
service_id = ${PAID_JOB.serviceId}

[store]
url = "sqlite:jobgate.db"

[runner]
bind_address = "127.0.0.1:0"

[operator]
bind_address = "127.0.0.1:0"

[x402]
bind_address = "127.0.0.1:0"
public_url = "https://operator.example.com"
facilitator_url = "${facilitatorUrl}"
default_invocation_mode = "public_paid"

[[x402.accepted_tokens]]
network = "eip155:84532"
asset = "${usdcAddress}"
symbol = "USDC"
decimals = 6
pay_to = "${payToAddress}"
rate_per_native_unit = "3200.00"
markup_bps = 200
eip3009_name = "USDC"
eip3009_version = "2"
rpc_url = "${rpcUrl}"

[job_pricing.${PAID_JOB.serviceId}]
${PAID_JOB.jobIndex} = "100000000000000"

[webhooks]
bind_address = "127.0.0.1:0"

[[webhooks.endpoints]]
path = "${WEBHOOK.path}"
job_id = ${WEBHOOK.jobId}
auth = "hmac-sha256"
secret = "env:ALERTS_SECRET"
name = "Alerts"
`;
}
