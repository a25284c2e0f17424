import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { Logger } from "pino";
import { NoAnvil, startChain } from "../../chain/anvil.ts";
import { Refusal, refusalOfMistakes } from "../../commands/input.ts";
import {
  addCommand,
  jsonOption,
  logFormatOption,
  logLevelOption,
  matching,
  option,
} from "../../commands/options.ts";
import { fields, programName } from "../../commands/output.ts";
import { nextStopSignal, startGatewayOrRefuse } from "../../commands/serve.ts";
import { TOKEN_PRESETS } from "../../config/token-presets.ts";
import { loadConfig } from "../../load-config.ts";
import { type LogFormat, openLog } from "../../log/log.ts";
import { type Job, RunnerError } from "../../runner/job.ts";
import { run } from "../../runner/run.ts";
import { installPermit2, PERMIT2_ADDRESS } from "./permit2.ts";
import { issuePlayMoney } from "./token.ts";

/** Chain ID of Base Sepolia, because official clients know its USDC. */
const CHAIN_ID = 84532;
/* Accounts that anvil funds. Their private keys are public, because `cast` and every tutorial print them. */
const SETTLER_KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
const PAYEE = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
const PAYER = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const PAYER_KEY = "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6";
const PAYER_FUNDS = 1_000_000_000n;
const PORTS = { x402: 8402, runner: 8403, operator: 8405, webhooks: 9090, chain: 8545 };
/**
 * Seconds between blocks, even without transactions, because the time of the newest block decides whether an authorization is
 * valid.
 */
const BLOCK_SECS = 1;
/**
 * Seconds by which the chain's clock is ahead, because the newest block is up to two seconds old, and a token rejects an
 * authorization before its `validAfter`.
 */
const CHAIN_AHEAD_SECS = 3;
/**
 * Number of newest blocks whose state anvil keeps in memory. Without this bound, anvil writes the state of each block to disk.
 */
const KEPT_BLOCKS = 1_000;
/** Units of the token that the sample runner charges for each byte of a metered job. */
const UNITS_PER_BYTE = 1_000;
const WEBHOOK_PATH = "/hooks/alerts";
const parseApi = matching(
  /^https?:\/\/[^\s"\\?#]+$/,
  "an http:// or https:// URL, such as http://127.0.0.1:8000",
);

type Ports = typeof PORTS;

interface DevOptions {
  readonly freePorts?: boolean;
  readonly runner: boolean;
  readonly api?: string;
  readonly json?: boolean;
  readonly logLevel: string;
  readonly logFormat: LogFormat;
}

export function addTo(program: Command): void {
  addCommand(program, {
    name: "dev",
    description:
      "Run everything on this machine until Ctrl-C: chain, token, facilitator, gateway and a runner.",
    notes: "Nothing is kept: the money, payments and jobs are gone when the command ends.",
    example: "dev",
    takes: [
      option("--free-ports", "listen on free ports instead of the usual ones"),
      option("--no-runner", "leave the jobs to your own runner"),
      option("--api <url>", "also sell each GET of an HTTP API").argParser(parseApi),
      jsonOption("print the addresses and keys as one line of JSON"),
      logLevelOption(),
      logFormatOption(),
    ],
  }).action(dev);
}

async function dev(options: DevOptions): Promise<void> {
  const log = openLog({ level: options.logLevel, format: options.logFormat });
  const stopping = new AbortController();
  const stopped = nextStopSignal().finally(() => stopping.abort());
  const folder = await mkdtemp(join(tmpdir(), "jobgate-dev-"));
  /** Functions that stop what was started, in the order of the starts. */
  const undo: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  try {
    const ports = options.freePorts ? await findFreePorts() : PORTS;
    const mining = ["--block-time", String(BLOCK_SECS), "--mixed-mining"];
    const extraArgs = [...mining, "--prune-history", String(KEPT_BLOCKS)];
    const chain = await startChain({ chainId: CHAIN_ID, port: ports.chain, extraArgs }).catch(
      (error: unknown) => {
        const { message } = error as Error;
        const advice = error instanceof NoAnvil ? [] : ["If a port is in use, --free-ports takes others."];
        throw new Refusal([message, ...advice]);
      },
    );
    undo.push(chain.stop);
    await chain.rpc.call("evm_increaseTime", [CHAIN_AHEAD_SECS]);
    await installPermit2(chain.rpc);
    const money = { token: usdc(), holder: PAYER, units: PAYER_FUNDS, spender: PERMIT2_ADDRESS };
    await issuePlayMoney(chain.rpc, money);
    const secret = randomBytes(24).toString("base64url");
    const config = await devConfig({ folder, ports, secret, rpcUrl: chain.rpcUrl, api: options.api });
    const gateway = await startGatewayOrRefuse(config, log.logger, stopping.signal);
    if (gateway === undefined) return;
    undo.push(() => gateway.stop());
    const working = options.runner ? doSampleJobs(ports, log.logger) : stopped;
    const facts = factsOf(ports, chain.rpcUrl, secret, options.api);
    console.log(options.json ? JSON.stringify(facts) : welcome(facts));
    await working;
  } finally {
    for (const stop of undo.reverse()) await stop();
  }
}

/** Runs the sample jobs until a stop signal, and then finishes the jobs in progress. */
async function doSampleJobs(ports: Ports, logger: Logger): Promise<void> {
  const handler = (job: Job): string => {
    job.charge(job.body.length * UNITS_PER_BYTE);
    return job.body.toString().toUpperCase();
  };
  try {
    await run(handler, { address: `127.0.0.1:${ports.runner}`, subscriber: "sample", logger });
  } catch (error) {
    throw error instanceof RunnerError ? new Refusal([error.message]) : error;
  }
}

/** Addresses and keys that the command prints. */
function factsOf(ports: Ports, rpcUrl: string, secret: string, api: string | undefined) {
  return {
    shop_url: `http://127.0.0.1:${ports.x402}/`,
    job_url: `http://127.0.0.1:${ports.x402}/x402/jobs/1/0`,
    used_job_url: `http://127.0.0.1:${ports.x402}/x402/jobs/1/1`,
    api_url: api && `http://127.0.0.1:${ports.x402}`,
    operator_url: `http://127.0.0.1:${ports.operator}/`,
    webhook_url: `http://127.0.0.1:${ports.webhooks}${WEBHOOK_PATH}`,
    webhook_secret: secret,
    runner_address: `127.0.0.1:${ports.runner}`,
    rpc_url: rpcUrl,
    chain_id: CHAIN_ID,
    token: usdc(),
    pay_to: PAYEE,
    payer: PAYER,
    payer_key: PAYER_KEY,
  };
}

function welcome(facts: ReturnType<typeof factsOf>): string {
  const alert = '{"alert":"disk is full"}';
  const signature = createHmac("sha256", facts.webhook_secret).update(alert).digest("hex");
  const buy = `echo hello | JOBGATE_PAYER_KEY=${facts.payer_key} ${programName()} pay`;
  const table = fields([
    ["shop", facts.shop_url],
    ["API", facts.api_url === undefined ? "" : `${facts.api_url} (each GET for $0.01)`],
    ["operator page", facts.operator_url],
    ["runners", facts.runner_address],
    ["chain", `${facts.rpc_url} (as Base Sepolia, ${facts.chain_id})`],
    ["token", `${facts.token} (USDC that is worth nothing)`],
    ["payer", `${facts.payer}, with 1000 USDC`],
  ]);
  return `${table}

Buy one run of the sample job, which returns text in capitals:
  ${buy} ${facts.job_url} --body -

Buy the same metered, for $0.001 a byte and at most $0.05:
  ${buy} ${facts.used_job_url} --body -

Send a webhook:
  curl -d '${alert}' -H 'X-Signature-256: sha256=${signature}' ${facts.webhook_url}

See the jobs and payments:
  ${programName()} status --target ${facts.operator_url}

End with Ctrl-C.`;
}

async function devConfig(parts: {
  readonly folder: string;
  readonly ports: Ports;
  readonly secret: string;
  readonly rpcUrl: string;
  readonly api: string | undefined;
}) {
  const { folder, ports, secret, rpcUrl, api } = parts;
  const loaded = await loadConfig({
    path: join(folder, "jobgate.toml"),
    env: {},
    toml: `
service_id = 1
store.url = "sqlite:${join(folder, "jobgate.db")}"
runner.bind_address = "127.0.0.1:${ports.runner}"
operator.bind_address = "127.0.0.1:${ports.operator}"

[x402]
bind_address = "127.0.0.1:${ports.x402}"

[[x402.facilitators]]
local = true
signer = { private_key = "${SETTLER_KEY}" }
rpc_urls = { base-sepolia = "${rpcUrl}" }
max_fee_per_gas_gwei = "100"

[[x402.accepted_tokens]]
token = "USDC"
network = "base-sepolia"
pay_to = "${PAYEE}"
rpc_url = "${rpcUrl}"

[[x402.accepted_tokens]]
token = "USDC"
network = "base-sepolia"
transfer_method = "permit2"
pay_to = "${PAYEE}"
rpc_url = "${rpcUrl}"

[[jobs]]
job_index = 0
name = "capitals"
title = "Text in capitals"
description = "Returns the text in the body in capitals."
mode = "public_paid"
price = "$0.01"
input = { content_type = "text/plain" }
output = { content_type = "text/plain" }

[[jobs]]
job_index = 1
name = "capitals-metered"
title = "Text in capitals, metered"
description = "Returns the text in the body in capitals, for $0.001 a byte."
mode = "public_paid"
price = "$0.05"
charge = "used"
max_run_secs = 60
input = { content_type = "text/plain" }
output = { content_type = "text/plain" }

[webhooks]
bind_address = "127.0.0.1:${ports.webhooks}"

[[webhooks.endpoints]]
path = "${WEBHOOK_PATH}"
job_id = 30
auth = "hmac-sha256"
secret = "${secret}"
${
  api === undefined
    ? ""
    : `
[[apis]]
name = "api"
url = "${api}"

[[jobs]]
route = "GET /{path...}"
api = "api"
mode = "public_paid"
price = "$0.01"
`
}`,
  });
  if (!loaded.ok) throw await refusalOfMistakes(loaded.mistakes);
  return loaded.config;
}

function usdc(): string {
  const preset = TOKEN_PRESETS.find(({ network }) => network === `eip155:${CHAIN_ID}`);
  if (preset === undefined) throw new Error("Base Sepolia has no token");
  return preset.asset;
}

async function findFreePorts(): Promise<Ports> {
  const servers = Object.keys(PORTS).map((name) => ({ name, server: createServer().listen(0, "127.0.0.1") }));
  const found: Record<string, number> = {};
  for (const { name, server } of servers) {
    if (!server.listening) await once(server, "listening");
    found[name] = (server.address() as AddressInfo).port;
  }
  for (const { server } of servers) server.close();
  return { ...PORTS, ...found };
}
