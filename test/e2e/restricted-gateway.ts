import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PaymentRequired } from "@x402/core/types";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { type Anvil, startAnvil } from "../helpers/anvil.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { type Facilitator, startFacilitator } from "../helpers/facilitator.ts";
import { type FaultProxy, startFaultProxy } from "../helpers/http-proxy.ts";
import type { Jobgate } from "../helpers/jobgate-process.ts";
import { type Runner, startRunner } from "../helpers/runner.ts";
import { startTangle, type Tangle } from "../helpers/tangle.ts";
import { deployUsdc, type Token } from "../helpers/usdc.ts";

/** The jobs of service 0, all at one price. */
export const JOB = { public: 0, payerIsCaller: 1, delegated: 2, disabled: 3, unpriced: 4 } as const;
export const NETWORK = "eip155:84532";

export type Headers = Readonly<Record<string, string>>;
export type Payment = Awaited<ReturnType<typeof signV2Payment>>;

/** Answer to a request: HTTP status and JSON. */
export type Answer = { readonly httpStatus: number } & Readonly<Record<string, unknown>>;

/** A jobgate that sells jobs for USDC on one chain to callers that Tangle's contract permits on another. */
export interface RestrictedGateway {
  readonly tangle: Tangle;
  readonly policyRpc: FaultProxy;
  readonly facilitator: Facilitator;
  readonly facilitatorProxy: FaultProxy;
  readonly usdc: Token;
  readonly runner: Runner;
  urlOf(job: number): string;
  /** Signs a payment for a job that can be bought. */
  pay(options?: { account?: TestAccount; job?: number }): Promise<Payment>;
  send(job: number, headers: Headers, body?: string): Promise<Answer>;
  dryRun(job: number, headers?: Headers, body?: string): Promise<Answer>;
  counters(): Promise<Record<string, number>>;
  /** Totals so far: settlements requested, token units received, payments and nonces stored. */
  traces(): Promise<{ settles: number; received: bigint; payments: number; nonces: number }>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export async function startRestrictedGateway(): Promise<RestrictedGateway> {
  const [anvil, tangle] = await Promise.all([startAnvil(), startTangle()]);
  const usdc = await deployUsdc({ anvil });
  for (const { address } of [accounts.deployer, accounts.payer, accounts.otherPayer])
    await usdc.mint(address, 1_000_000_000n);
  const facilitator = await startFacilitator({ anvil });
  const facilitatorProxy = await startFaultProxy({ target: facilitator.url });
  const policyRpc = await startFaultProxy({ target: tangle.anvil.rpcUrl });
  const folder = await mkdtemp(join(tmpdir(), "jobgate-restricted-"));
  const config = configOf({ anvil, usdc, tangle, facilitatorUrl: facilitatorProxy.url, policyRpc });
  let jobgate: Jobgate;
  let runner: Runner;
  const start = async () => {
    jobgate = await startEmbeddedJobgate({ config, folder });
    runner = await startRunner({ address: jobgate.runnerAddress });
  };
  await start();
  const database = openDriver(join(folder, "jobgate.db"));
  database.exec("PRAGMA query_only = ON");

  const urlOf = (job: number) => `${jobgate.x402Url}/x402/jobs/0/${job}`;
  const post = async (url: string, headers: Headers, body: string): Promise<Answer> => {
    const response = await fetch(url, { method: "POST", headers, body, signal: AbortSignal.timeout(20_000) });
    return { httpStatus: response.status, ...((await response.json()) as object) };
  };
  return {
    tangle,
    policyRpc,
    facilitator,
    facilitatorProxy,
    usdc,
    get runner() {
      return runner;
    },
    urlOf,
    async pay({ account = accounts.payer, job = JOB.delegated } = {}) {
      const { v2 } = await requestOffer(urlOf(job));
      return signV2Payment({ offer: v2 as PaymentRequired, account });
    },
    send: (job, headers, body = "work") => post(urlOf(job), headers, body),
    dryRun: (job, headers = {}, body = "work") => post(`${urlOf(job)}/auth-dry-run`, headers, body),
    async counters() {
      const response = await fetch(`${jobgate.x402Url}/x402/stats`);
      return ((await response.json()) as { counters: Record<string, number> }).counters;
    },
    async traces() {
      const received = await usdc.balanceOf(accounts.payTo.address);
      const [payments, nonces] = ["payments", "caller_nonces"].map((table) =>
        Number(database.prepare<{ rows: number }>(`SELECT count(*) AS rows FROM ${table}`).get([])?.rows),
      );
      return { settles: facilitator.counts.settle, received, payments: payments ?? 0, nonces: nonces ?? 0 };
    },
    async restart() {
      jobgate.kill();
      await jobgate.exited;
      runner.kill();
      await start();
    },
    async stop() {
      runner.kill();
      database.close();
      await jobgate.stop();
      await Promise.all([facilitatorProxy.stop(), policyRpc.stop(), facilitator.stop()]);
      await Promise.all([anvil.stop(), tangle.stop(), rm(folder, { recursive: true, force: true })]);
    },
  };
}

function configOf(parts: {
  readonly anvil: Anvil;
  readonly usdc: Token;
  readonly tangle: Tangle;
  readonly facilitatorUrl: string;
  readonly policyRpc: FaultProxy;
}): string {
  const { anvil, usdc, tangle, facilitatorUrl, policyRpc } = parts;
  const restricted = (job: number, authMode: string) => `
[[x402.job_policies]]
service_id = 0
job_index = ${job}
invocation_mode = "restricted_paid"
auth_mode = "${authMode}"
chain_rpc_url = "${policyRpc.url}"
chain_contract = "${tangle.contract}"`;
  return `
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[x402]
bind_address = "127.0.0.1:0"
public_url = "http://127.0.0.1:8402"
facilitator_url = "${facilitatorUrl}"
facilitator_timeout_secs = 5
default_invocation_mode = "public_paid"
[[x402.accepted_tokens]]
network = "${NETWORK}"
asset = "${usdc.address}"
symbol = "USDC"
decimals = 6
pay_to = "${accounts.payTo.address}"
rate_per_native_unit = "1000"
eip3009_name = "USDC"
eip3009_version = "2"
rpc_url = "${anvil.rpcUrl}"
${restricted(JOB.payerIsCaller, "payer_is_caller")}
${restricted(JOB.delegated, "delegated_caller_signature")}
[[x402.job_policies]]
service_id = 0
job_index = ${JOB.disabled}
invocation_mode = "disabled"
[job_pricing.0]
0 = "100000000000000"
1 = "100000000000000"
2 = "100000000000000"
3 = "100000000000000"
`;
}
