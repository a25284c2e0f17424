import type { WebhookEndpoint } from "../src/config/config.ts";
import { loadConfig } from "../src/config/load-config.ts";
import { type Jobgate, startJobgate } from "../test/helpers/jobgate-process.ts";
import type { ProgramSource } from "../test/helpers/jobgate-program.ts";
import type { Tree } from "./trees.ts";

const CONFIG = (store: string, more: string) => `
service_id = 1
[store]
url = "${store}"
max_pending = 10000000
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[x402]
bind_address = "127.0.0.1:0"
public_url = "http://127.0.0.1:8402"
facilitator_url = "http://127.0.0.1:9"
default_invocation_mode = "public_paid"
limits = { max_unpaid_per_second_per_client = 1000000 }
[[x402.accepted_tokens]]
network = "eip155:84532"
asset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
symbol = "USDC"
decimals = 6
pay_to = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
rate_per_native_unit = "3200.00"
eip3009_name = "USDC"
eip3009_version = "2"
[job_pricing.1]
0 = "1000000000000000"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/bench"
job_id = 1
${more}
`;

/** A tree's gateway, named as the tree. */
export interface TreeGateway {
  readonly name: string;
  readonly jobgate: Jobgate;
}

/**
 * Starts a tree's build with the endpoint `/hooks/bench`, job 1, and the paid job 0 of service 1. Its facilitator is not
 * there.
 */
export async function startTree(
  tree: Tree,
  { store = "sqlite:bench.db", config = "" }: { readonly store?: string; readonly config?: string } = {},
): Promise<TreeGateway> {
  return {
    name: tree.name,
    jobgate: await startJobgate({ from: programOf(tree), config: CONFIG(store, config) }),
  };
}

/** Returns a tree's program, as {@link startJobgate} takes it. */
export function programOf({ folder }: Tree): ProgramSource {
  return folder === undefined ? "build" : { builtIn: folder };
}

/** Reads the webhook endpoints that a gateway runs with. */
export async function readWebhookEndpoints({ configPath }: Jobgate): Promise<readonly WebhookEndpoint[]> {
  const loaded = await loadConfig({ path: configPath, env: {} });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  return loaded.config.webhooks?.endpoints ?? [];
}
