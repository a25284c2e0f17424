import { join } from "node:path";
import type { PaymentRequired } from "@x402/core/types";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { buyTask } from "../helpers/a2a.ts";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import type { Anvil } from "../helpers/anvil.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import type { Facilitator } from "../helpers/facilitator.ts";
import { post as httpPost } from "../helpers/http-post.ts";
import { type FaultProxy, startFaultProxy } from "../helpers/http-proxy.ts";
import { buyTool } from "../helpers/mcp.ts";
import { type MppChallenge, requestChallenges, signChallenge } from "../helpers/mpp.ts";
import type { Runner } from "../helpers/runner.ts";
import { startTangle, type Tangle } from "../helpers/tangle.ts";
import type { Token } from "../helpers/usdc.ts";
import { type PaidGatewayOptions, type ProtocolName, paysByX402, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

/** The jobs of service 0, all at one price. */
export const JOB = { public: 0, payerIsCaller: 1, delegated: 2, disabled: 3, unpriced: 4 } as const;
export const NETWORK = "eip155:84532";

export type Headers = Readonly<Record<string, string>>;
export type Payment = Awaited<ReturnType<typeof signV2Payment>>;

/** Answer to a request: HTTP status and JSON. */
export type Answer = { readonly httpStatus: number } & Readonly<Record<string, unknown>>;

/** A jobgate that sells jobs for USDC on one chain to callers that Tangle's contract permits on another. */
export interface RestrictedGateway {
  /** Chain of the token. */
  readonly anvil: Anvil;
  readonly tangle: Tangle;
  readonly policyRpc: FaultProxy;
  readonly facilitator: Facilitator;
  readonly facilitatorProxy: FaultProxy;
  readonly usdc: Token;
  readonly runner: Runner;
  urlOf(job: number, protocol?: ProtocolName): string;
  /** Signs a payment for a job that can be bought. */
  pay(options?: { account?: TestAccount; job?: number; protocol?: ProtocolName }): Promise<Payment>;
  send(job: number, headers: Headers, body?: string, protocol?: ProtocolName): Promise<Answer>;
  dryRun(job: number, headers?: Headers, body?: string): Promise<Answer>;
  counters(): Promise<Record<string, number>>;
  /** Totals so far: settlements requested, token units received, payments and nonces stored. */
  traces(): Promise<{ settles: number; received: bigint; payments: number; nonces: number }>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export async function startRestrictedGateway(
  options: Pick<PaidGatewayOptions, "periods" | "facilitatorTimeoutSecs"> = {},
): Promise<RestrictedGateway> {
  const payers = [accounts.deployer, accounts.payer, accounts.otherPayer];
  const [parts, tangle] = await Promise.all([startPaidParts({ payers }), startTangle()]);
  const policyRpc = await startFaultProxy({ target: tangle.anvil.rpcUrl });
  const gateway = await startPaidGateway({
    parts,
    setUp: "rpc_url",
    ...options,
    rate: 'rate_per_native_unit = "1000"',
    edit: (config) =>
      config
        .replace("service_id = 1\n", "")
        .replace("markup_bps = 200\n", "")
        .replace(/\[job_pricing\.1\][\s\S]*/, jobsOf(policyRpc.url, tangle.contract)),
  });
  const database = openDriver(join(gateway.jobgate.folder, "jobgate.db"));
  database.exec("PRAGMA query_only = ON");

  const urlOf = (job: number, protocol: ProtocolName = "x402") =>
    gateway.at(protocol).urlOf(job).replace("/jobs/1/", "/jobs/0/");
  const post = async (url: string, headers: Headers, body: string): Promise<Answer> => {
    const response = await httpPost(url, { headers, body, signal: AbortSignal.timeout(55_000) });
    return { httpStatus: response.status, ...((await response.json()) as object) };
  };
  return {
    anvil: parts.anvil,
    tangle,
    policyRpc,
    facilitator: parts.facilitator,
    facilitatorProxy: gateway.facilitatorProxy,
    usdc: parts.usdc,
    get runner() {
      return gateway.runner;
    },
    urlOf,
    async pay({ account = accounts.payer, job = JOB.delegated, protocol = "x402" } = {}) {
      const { v2 } = await requestOffer(urlOf(job));
      const payment = await signV2Payment({ offer: v2 as PaymentRequired, account });
      if (paysByX402(protocol)) return payment;
      const [challenge] = await requestChallenges(urlOf(job, protocol));
      return { ...payment, ...(await signChallenge({ challenge: challenge as MppChallenge, account })) };
    },
    async send(job, headers, body = "work", protocol = "x402") {
      const name = `job-0-${job}`;
      const sent = {
        body,
        headers: Object.fromEntries(
          Object.entries(headers).map(([header, value]) => [header.toLowerCase(), value]),
        ),
      };
      const { x402Url } = gateway.jobgate;
      if (protocol !== "a2a" && !protocol.endsWith("mcp")) return post(urlOf(job, protocol), headers, body);
      const { status, ...answer } =
        protocol === "a2a"
          ? await buyTask(`${x402Url}/a2a`, { skillId: name, ...sent })
          : await buyTool(`${x402Url}/mcp`, { name, ...sent });
      return { httpStatus: Number(status), ...answer };
    },
    dryRun: (job, headers = {}, body = "work") => post(`${urlOf(job)}/auth-dry-run`, headers, body),
    async counters() {
      const response = await fetch(`${gateway.jobgate.x402Url}/x402/stats`);
      return ((await response.json()) as { counters: Record<string, number> }).counters;
    },
    async traces() {
      const received = await parts.usdc.balanceOf(accounts.payTo.address);
      // Each task of A2A has a nonce of its own.
      const tables = ["payments", "one_time_nonces WHERE key NOT LIKE 'a2a %' AND key NOT LIKE 'mcp %'"];
      const [payments, nonces] = tables.map((table) =>
        Number(database.prepare<{ rows: number }>(`SELECT count(*) AS rows FROM ${table}`).get([])?.rows),
      );
      const settles = parts.facilitator.counts.settle;
      return { settles, received, payments: payments ?? 0, nonces: nonces ?? 0 };
    },
    restart: () => gateway.restart(),
    async stop() {
      database.close();
      await gateway.stop();
      await Promise.all([policyRpc.stop(), parts.stop(), tangle.stop()]);
    },
  };
}

/** The policies and prices of the jobs. */
function jobsOf(policyRpcUrl: string, contract: string): string {
  const policy = (job: number, mode: string) => `
[[x402.job_policies]]
service_id = 0
job_index = ${job}
invocation_mode = "${mode}"`;
  const restricted = (job: number, authMode: string) => `${policy(job, "restricted_paid")}
auth_mode = "${authMode}"
chain_rpc_url = "${policyRpcUrl}"
chain_contract = "${contract}"`;
  return `
${restricted(JOB.payerIsCaller, "payer_is_caller")}
${restricted(JOB.delegated, "delegated_caller_signature")}
${policy(JOB.disabled, "disabled")}
[job_pricing.0]
0 = "100000000000000"
1 = "100000000000000"
2 = "100000000000000"
3 = "100000000000000"
`;
}
