/** Configuration that takes webhooks at `/hooks/alerts`, for job 30, and nothing else. */
export const WEBHOOKS_CONFIG = `
service_id = 1
runner.bind_address = "127.0.0.1:0"
operator.bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/alerts"
job_id = 30
auth = "none"
`;

/** The same, with a paid job for a facilitator that is to be added. Nothing answers at the RPC's address. */
export const SALES_CONFIG = `${WEBHOOKS_CONFIG}
[[jobs]]
job_index = 0
name = "capitals"
mode = "public_paid"
price = "$0.01"
[x402]
bind_address = "127.0.0.1:0"
public_url = "https://operator.example.com"
[[x402.accepted_tokens]]
token = "USDC"
network = "base-sepolia"
pay_to = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
rpc_url = "http://127.0.0.1:9"
`;

/** A facilitator for {@link SALES_CONFIG}. Nothing answers at its address. */
export const CLOSED_FACILITATOR = '[[x402.facilitators]]\nurl = "http://127.0.0.1:9"\n';
