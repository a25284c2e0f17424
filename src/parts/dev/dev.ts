import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { Logger } from "pino";
import { NoAnvil, startChain } from "../../chain/anvil.ts";
import { Refusal } from "../../commands/input.ts";
import {
  addCommand,
  jsonOption,
  logFormatOption,
  logLevelOption,
  matching,
  option,
} from "../../commands/options.ts";
import { fields, programName } from "../../commands/output.ts";
import { loadConfig, nextStopSignal, startGatewayOrRefuse } from "../../commands/serve.ts";
import type { Config } from "../../config/config.ts";
import { routeText, takesBody } from "../../core/route.ts";
import { type LogFormat, openLog } from "../../log/log.ts";
import { type Job, RunnerError } from "../../runner/job.ts";
import { run } from "../../runner/run.ts";
import {
  CHAIN_ID,
  configOf,
  ownConfig,
  PAYEE,
  type Ports,
  sampleConfig,
  usdc,
  WEBHOOK_PATH,
} from "./configuration.ts";
import { installPermit2, PERMIT2_ADDRESS } from "./permit2.ts";
import { issuePlayMoney } from "./token.ts";

/* Account that anvil funds. Its private key is public, because `cast` and every tutorial print it. */
const PAYER = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const PAYER_KEY = "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6";
const PAYER_FUNDS = 1_000_000_000n;
const PORTS: Ports = { x402: 8402, runner: 8403, operator: 8405, webhooks: 9090, chain: 8545 };
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
const parseApi = matching(
  /^https?:\/\/[^\s"\\?#]+$/,
  "an http:// or https:// URL, such as http://127.0.0.1:8000",
);

interface DevOptions {
  readonly freePorts?: boolean;
  readonly runner: boolean;
  readonly api?: string;
  readonly config?: string;
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
      option(
        "-c, --config <file>",
        "jobs, APIs and webhooks of this configuration file in place of the samples, for play money",
      ),
      option("--free-ports", "listen on free ports instead of the usual ones"),
      option("--no-runner", "start no sample runner, because you start a runner of your own"),
      option("--api <url>", "also sell each GET of an HTTP API").argParser(parseApi).conflicts("config"),
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
    if (options.config !== undefined) await loadConfig({ config: options.config }, log);
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
    const { api, config: file, freePorts } = options;
    const place = { folder, rpcUrl: chain.rpcUrl };
    const secret = randomBytes(24).toString("base64url");
    const config = await configOf(
      file === undefined
        ? sampleConfig({ ...place, ports, secret, api })
        : await ownConfig({ ...place, file, ports: freePorts ? ports : undefined }),
    );
    const gateway = await startGatewayOrRefuse(config, log.logger, stopping.signal);
    if (gateway === undefined) return;
    undo.push(() => gateway.stop());
    const isSample = file === undefined;
    const working = options.runner && isSample ? doSampleJobs(ports, log.logger) : stopped;
    if (isSample) {
      const facts = sampleFacts(ports, chain.rpcUrl, secret, api);
      console.log(options.json ? JSON.stringify(facts) : sampleWelcome(facts));
    } else {
      const facts = ownFacts(config, gateway.listeners, chain.rpcUrl);
      console.log(options.json ? JSON.stringify(facts) : ownWelcome(facts));
    }
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
function sampleFacts(ports: Ports, rpcUrl: string, secret: string, api: string | undefined) {
  return {
    shop_url: `http://127.0.0.1:${ports.x402}/`,
    job_url: `http://127.0.0.1:${ports.x402}/x402/jobs/1/0`,
    used_job_url: `http://127.0.0.1:${ports.x402}/x402/jobs/1/1`,
    api_url: api && `http://127.0.0.1:${ports.x402}`,
    operator_url: `http://127.0.0.1:${ports.operator}/`,
    webhook_url: `http://127.0.0.1:${ports.webhooks}${WEBHOOK_PATH}`,
    webhook_secret: secret,
    runner_address: `127.0.0.1:${ports.runner}`,
    pay_to: PAYEE,
    ...moneyFacts(rpcUrl),
  };
}

/** Addresses and keys that the command prints for a configuration of its user. */
function ownFacts(
  { x402, webhooks }: Config,
  listeners: readonly { readonly name: string; readonly address: string }[],
  rpcUrl: string,
) {
  const addresses = new Map(
    listeners.map(({ name, address }) => [name, address.replace("0.0.0.0", "127.0.0.1")]),
  );
  const seller = `http://${addresses.get("x402")}`;
  const webhook = `http://${addresses.get("webhooks")}`;
  return {
    shop_url: x402 && `${seller}/`,
    jobs: (x402?.jobs ?? []).map(({ route, serviceId, jobIndex, name }) => ({
      name: name ?? (route && routeText(route)),
      method: route?.methods[0] ?? "POST",
      url: `${seller}${route?.path ?? `/x402/jobs/${serviceId}/${jobIndex}`}`,
    })),
    operator_url: `http://${addresses.get("operator")}/`,
    webhook_urls: (webhooks?.endpoints ?? []).map(({ path }) => `${webhook}${path}`),
    runner_address: addresses.get("runner") ?? "",
    pay_to: x402?.acceptedTokens[0]?.payTo,
    ...moneyFacts(rpcUrl),
  };
}

const moneyFacts = (rpcUrl: string) => ({
  rpc_url: rpcUrl,
  chain_id: CHAIN_ID,
  token: usdc(),
  payer: PAYER,
  payer_key: PAYER_KEY,
});

type MoneyFacts = ReturnType<typeof moneyFacts>;

const moneyRows = ({ rpc_url: rpcUrl, token, payer }: MoneyFacts): [string, string][] => [
  ["chain", `${rpcUrl} (as Base Sepolia, ${CHAIN_ID})`],
  ["token", `${token} (USDC that is worth nothing)`],
  ["payer", `${payer}, with 1000 USDC`],
];

function ownWelcome(facts: ReturnType<typeof ownFacts>): string {
  const table = fields([
    ["shop", facts.shop_url ?? ""],
    ["operator page", facts.operator_url],
    ["runners", facts.runner_address],
    ...facts.webhook_urls.map((url): [string, string] => ["webhooks", url]),
    ["paid to", facts.pay_to ?? ""],
    ...moneyRows(facts),
  ]);
  const [job] = facts.jobs;
  const buy =
    job === undefined
      ? ""
      : `
Buy ${job.name ?? "a job"}. Unless an API does the job, start your runner first:
  JOBGATE_PAYER_KEY=${facts.payer_key} ${programName()} pay ${job.url} --method ${job.method}${takesBody(job.method) ? " --body FILE" : ""}
`;
  return `${table}
${buy}
See the jobs and payments:
  ${programName()} status --target ${facts.operator_url}

End with Ctrl-C.`;
}

function sampleWelcome(facts: ReturnType<typeof sampleFacts>): string {
  const alert = '{"alert":"disk is full"}';
  const signature = createHmac("sha256", facts.webhook_secret).update(alert).digest("hex");
  const buy = `echo hello | JOBGATE_PAYER_KEY=${facts.payer_key} ${programName()} pay`;
  const table = fields([
    ["shop", facts.shop_url],
    ["API", facts.api_url === undefined ? "" : `${facts.api_url} (each GET for $0.01)`],
    ["operator page", facts.operator_url],
    ["runners", facts.runner_address],
    ...moneyRows(facts),
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
