import { join } from "node:path";
import { parse, stringify, type TomlTable } from "smol-toml";
import { Refusal, refusalOfMistakes } from "../../commands/input.ts";
import type { Config } from "../../config/config.ts";
import { isTable } from "../../config/config-files.ts";
import { readText } from "../../config/named-files.ts";
import { TOKEN_PRESETS } from "../../config/token-presets.ts";
import { loadConfig } from "../../load-config.ts";

/** Chain ID of Base Sepolia, because official clients know its USDC. */
export const CHAIN_ID = 84532;
/* Accounts that anvil funds. Their private keys are public, because `cast` and every tutorial print them. */
const FACILITATOR_KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
export const PAYEE = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
export const WEBHOOK_PATH = "/hooks/alerts";

/** Ports of the listeners on this machine. */
export type Ports = Readonly<Record<"x402" | "runner" | "operator" | "webhooks" | "chain", number>>;

/** Folder of the store, and the chain. */
interface Place {
  readonly folder: string;
  readonly rpcUrl: string;
}

type Source = Parameters<typeof loadConfig>[0];

/** @throws Refusal with the mistakes of the configuration */
export async function configOf(source: Source): Promise<Config> {
  const loaded = await loadConfig(source);
  if (!loaded.ok) throw await refusalOfMistakes(loaded.mistakes);
  return loaded.config;
}

/** The configuration of the samples. */
export function sampleConfig(
  parts: Place & {
    readonly ports: Ports;
    readonly secret: string;
    readonly api: string | undefined;
  },
): Source {
  const { ports, secret, api } = parts;
  const job = {
    mode: "public_paid",
    input: { content_type: "text/plain" },
    output: { content_type: "text/plain" },
  };
  const tables = {
    service_id: 1,
    x402: {},
    jobs: [
      {
        ...job,
        job_index: 0,
        name: "capitals",
        title: "Text in capitals",
        description: "Returns the text in the body in capitals.",
        price: "$0.01",
      },
      {
        ...job,
        job_index: 1,
        name: "capitals-metered",
        title: "Text in capitals, metered",
        description: "Returns the text in the body in capitals, for $0.001 a byte.",
        price: "$0.05",
        charge: "used",
        max_run_secs: 60,
      },
      ...(api === undefined
        ? []
        : [{ route: "GET /{path...}", api: "api", mode: "public_paid", price: "$0.01" }]),
    ],
    webhooks: { endpoints: [{ path: WEBHOOK_PATH, job_id: 30, auth: "hmac-sha256", secret }] },
    ...(api !== undefined && { apis: [{ name: "api", url: api }] }),
  };
  const toml = stringify(inSandbox(tables, { ...parts, ports, payTo: PAYEE }));
  return { path: join(parts.folder, "jobgate.toml"), toml, env: {} };
}

/**
 * Reads a configuration, and changes it so that its jobs are sold for play money: its store, facilitators, tokens and public
 * URL are the sandbox's. Its mistakes must have been reported before, because lines change.
 * @param parts.ports ports to listen on, instead of the addresses of the file
 */
export async function ownConfig(
  parts: Place & { readonly file: string; readonly ports: Ports | undefined },
): Promise<Source> {
  const { file, ports } = parts;
  const tables = parse(await readText(file, true), { integersAsBigInt: true });
  for (const name of ["x402", "webhooks"] as const)
    if (typeof tables[name] === "string")
      throw new Refusal([
        `${file}: ${name} is in a file of its own; expected the table [${name}] in this file, which jobgate dev changes`,
      ]);
  const [first] = tokensOf(tables);
  const payTo =
    typeof first?.pay_to === "string" && /^(0x|env:|file:)/.test(first.pay_to) ? first.pay_to : PAYEE;
  return {
    path: `${file} (as jobgate dev changes it)`,
    toml: stringify(inSandbox(tables, { ...parts, ports, payTo })),
    env: process.env,
  };
}

function tokensOf({ x402 }: TomlTable): readonly TomlTable[] {
  const tokens = isTable(x402) ? x402.accepted_tokens : undefined;
  return Array.isArray(tokens) ? (tokens.filter(isTable) as TomlTable[]) : [];
}

/** Sets what a sandbox has of its own. */
function inSandbox(
  tables: TomlTable,
  { folder, rpcUrl, ports, payTo }: Place & { readonly ports: Ports | undefined; readonly payTo: string },
): TomlTable {
  const at = (name: keyof Ports) => (ports === undefined ? {} : { bind_address: `127.0.0.1:${ports[name]}` });
  const table = (name: string): TomlTable => {
    const value = tables[name];
    return isTable(value) ? (value as TomlTable) : {};
  };
  const { public_url: _url, facilitator_url: _facilitator, ...x402 } = table("x402");
  const { rate_per_native_unit: rate, markup_bps: markup } = tokensOf(tables)[0] ?? {};
  const token = {
    token: "USDC",
    network: "base-sepolia",
    pay_to: payTo,
    rpc_url: rpcUrl,
    ...(rate !== undefined && { rate_per_native_unit: rate }),
    ...(markup !== undefined && { markup_bps: markup }),
  };
  const facilitator = {
    local: true,
    signer: { private_key: FACILITATOR_KEY },
    rpc_urls: { "base-sepolia": rpcUrl },
    max_fee_per_gas_gwei: "100",
  };
  return {
    ...tables,
    store: { url: `sqlite:${join(folder, "jobgate.db")}` },
    runner: { ...table("runner"), ...at("runner") },
    operator: { ...table("operator"), ...at("operator") },
    ...("x402" in tables && {
      x402: {
        ...x402,
        ...at("x402"),
        facilitators: [facilitator],
        accepted_tokens: [token, { ...token, transfer_method: "permit2" }],
      },
    }),
    ...("webhooks" in tables && { webhooks: { ...table("webhooks"), ...at("webhooks") } }),
  };
}

/** Address of the token. */
export function usdc(): string {
  const preset = TOKEN_PRESETS.find(({ network }) => network === `eip155:${CHAIN_ID}`);
  if (preset === undefined) throw new Error("Base Sepolia has no token");
  return preset.asset;
}
