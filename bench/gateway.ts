import type { WebhookEndpoint } from "../src/config/config.ts";
import { loadConfig } from "../src/load-config.ts";
import { type Jobgate, startJobgate } from "../test/helpers/jobgate-process.ts";
import type { Tree } from "./trees.ts";

/** Facilitator and token of a payment. */
export interface PaymentTarget {
  readonly facilitatorUrl: string;
  readonly chainId: number;
  readonly asset: string;
  readonly payTo: string;
  readonly tokenName: string;
  readonly tokenVersion: string;
  readonly rpcUrl?: string;
  /** Changes the configuration: another facilitator. */
  readonly edit?: (config: string) => string;
}

/** USDC on Base Sepolia, without a facilitator: enough for offers. */
const NO_FACILITATOR: PaymentTarget = {
  facilitatorUrl: "http://127.0.0.1:9",
  chainId: 84_532,
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
  tokenName: "USDC",
  tokenVersion: "2",
};

export interface GatewayOptions {
  /** URL of the store; default: a new SQLite file. */
  readonly store?: string;
  /** Default: none, so that nothing can be paid. */
  readonly payments?: PaymentTarget;
  /** Further endpoints, as TOML. */
  readonly endpoints?: string;
  /** Changes the configuration. */
  readonly edit?: (config: string) => string;
  /** Working directory, for a second start on the same store. Default: a new one. */
  readonly folder?: string;
  /** Further keys of `[store]`, as TOML. */
  readonly storeKeys?: string;
}

function configOf({
  store = "sqlite:bench.db",
  payments = NO_FACILITATOR,
  endpoints = "",
  storeKeys = "",
  edit: change = (config) => config,
}: GatewayOptions): string {
  const { facilitatorUrl, chainId, asset, payTo, tokenName, tokenVersion, rpcUrl } = payments;
  const { edit = (config) => config } = payments;
  return change(
    edit(`
service_id = 1
[store]
url = "${store}"
max_pending = 10000000
${storeKeys}
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[x402]
bind_address = "127.0.0.1:0"
public_url = "http://127.0.0.1:8402"
facilitator_url = "${facilitatorUrl}"
default_invocation_mode = "public_paid"
limits = { max_unpaid_per_second_per_client = 1000000 }
[[x402.accepted_tokens]]
network = "eip155:${chainId}"
asset = "${asset}"
symbol = "USDC"
decimals = 6
pay_to = "${payTo}"
rate_per_native_unit = "3200.00"
transfer_method = "eip3009"
eip3009_name = "${tokenName}"
eip3009_version = "${tokenVersion}"
${rpcUrl === undefined ? "" : `rpc_url = "${rpcUrl}"`}
[job_pricing.1]
0 = "1000000000000000"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/bench"
job_id = 1
${endpoints}
`),
  );
}

/** A tree's gateway, named as the tree. */
export interface TreeGateway {
  readonly name: string;
  readonly jobgate: Jobgate;
}

/** Starts a tree's build with the endpoint `/hooks/bench`, job 1, and the paid job 0 of service 1. */
export async function startTree({ name, folder }: Tree, options: GatewayOptions = {}): Promise<TreeGateway> {
  const from = folder === undefined ? "build" : { builtIn: folder };
  const place = options.folder === undefined ? {} : { folder: options.folder };
  return { name, jobgate: await startJobgate({ from, config: configOf(options), ...place }) };
}

/** Reads the webhook endpoints that a gateway runs with. */
export async function readWebhookEndpoints({ configPath }: Jobgate): Promise<readonly WebhookEndpoint[]> {
  const loaded = await loadConfig({ path: configPath, env: {} });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  return loaded.config.webhooks?.endpoints ?? [];
}
