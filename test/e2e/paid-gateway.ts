import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodePaymentResponseHeader } from "@x402/core/http";
import type { PaymentPayload, PaymentRequirements, SettleResponse } from "@x402/core/types";
import { expect } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import type { JobCall } from "../../src/gen/jobgate/v1/runner_pb.ts";
import type { X402Periods } from "../../src/x402/gateway-options.ts";
import { buyTask } from "../helpers/a2a.ts";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { requestOffer, type SignedPayment, signV2Payment } from "../helpers/clients.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { post } from "../helpers/http-post.ts";
import { type FaultProxy, startFaultProxy } from "../helpers/http-proxy.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { buyTool } from "../helpers/mcp.ts";
import {
  type MppMethodName,
  type MppPayment,
  readBase64Json,
  requestChallenges,
  signChallenge,
} from "../helpers/mpp.ts";
import { type JobHandler, type Runner, startRunner } from "../helpers/runner.ts";
import { until } from "../helpers/until.ts";
import type { SignedAuthorization, Token } from "../helpers/usdc.ts";
import { type Journal, openJournal } from "./journal.ts";
import { configOf } from "./paid-config.ts";
import type { PaidParts } from "./paid-parts.ts";
import { openPostgresJournal } from "./postgres-journal.ts";

/** Selects whether jobgate reads the token's chain or relies on the facilitator. */
export type SetUp = "rpc_url" | "no rpc_url";
export const SET_UPS: readonly SetUp[] = ["rpc_url", "no rpc_url"];

/** Protocols that a paid gateway has: x402, and the methods of MPP. */
export type ProtocolName = "x402" | MppMethodName | "mcp" | "evm over mcp" | "a2a";
export const PROTOCOLS = ["x402", "evm", "blueprintevm"] as const;
/** The same, and MCP and A2A, which have a path for all jobs. */
export const ALL_PROTOCOLS: readonly ProtocolName[] = [...PROTOCOLS, "mcp", "evm over mcp", "a2a"];

/** Edits a configuration so that its token is pegged to the dollar. */
export const inDollars = (config: string) => config.replace("markup_bps = 200", 'currency = "USD"');

export const paysByX402 = (protocol: ProtocolName) => ["x402", "mcp", "a2a"].includes(protocol);

/** Answer to a paid request. */
export interface Answer {
  readonly status: number;
  readonly code?: string;
  readonly charged?: boolean | "unknown";
  readonly payment?: "authorized" | "released";
  readonly retryable?: boolean;
  readonly call_id?: number;
  readonly receipt?: string;
  readonly access_token?: string;
  readonly retryAfter?: string;
  /** Read from PAYMENT-RESPONSE. */
  readonly settlement?: SettleResponse;
  /** Read from Payment-Receipt. */
  readonly paymentReceipt?: Record<string, unknown>;
}

/** The credential is of MPP. */
export type Payment = SignedPayment<PaymentPayload> & Partial<Pick<MppPayment, "credential">>;

export interface SendOptions {
  readonly body?: string;
  /** Default 0. Jobs 0 and 1 of service 1 cost the same. */
  readonly job?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** A way to buy from a gateway. */
interface ProtocolClient {
  urlOf(job?: number): string;
  /** Signs a payment for a fresh offer, valid for 300 s by the chain's time. */
  sign(options?: {
    readonly account?: TestAccount;
    readonly job?: number;
    /** Body and headers of the request for the offer. MPP binds the payment to a body that is given. */
    readonly body?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly option?: number;
    readonly authorization?: Partial<SignedAuthorization["authorization"]>;
    /** Signs the authorization, and the challenge, of an earlier payment once more. */
    readonly again?: Payment;
    /** x402 only. */
    readonly edit?: (payload: PaymentPayload) => PaymentPayload;
  }): Promise<Payment>;
  send(
    payment: { readonly headers: Readonly<Record<string, string>> },
    options?: SendOptions,
  ): Promise<Answer>;
}

/** A jobgate that sells jobs 0 and 1 of service 1, with a runner at work. It is itself a client of x402. */
export interface PaidGateway extends ProtocolClient {
  readonly jobgate: Jobgate;
  /** Facilitator URL that jobgate uses. */
  readonly facilitatorProxy: FaultProxy;
  /** Token RPC that jobgate uses. */
  readonly rpcProxy: FaultProxy;
  /** Reads the store's file beside jobgate. */
  readonly journal: Journal;
  /** JobCalls received, repeated deliveries included, over all restarts. */
  readonly delivered: readonly JobCall[];
  /** The runner that is subscribed now. */
  readonly runner: Runner;
  at(protocol: ProtocolName): ProtocolClient;
  /** Sends again until the payment is decided. Throws with the last answer after `timeoutMs`. */
  sendUntilDecided(
    payment: Pick<Payment, "headers">,
    options?: SendOptions & { timeoutMs?: number },
  ): Promise<Answer>;
  /** Holds jobgate's next request to settle, of this payment if given, while something is done. */
  duringSettle<Result>(deed: () => Promise<Result>, payment?: Payment): Promise<Result>;
  /** Resolves with all JobCalls with this body once `count` of them have arrived. */
  waitForJobs(body: string, count?: number): Promise<readonly JobCall[]>;
  jobsWith(body: string): readonly JobCall[];
  /** Ends jobgate with the signal and starts it again on the same store; the runner subscribes again. */
  restart(options?: StartOptions & { readonly signal?: NodeJS.Signals }): Promise<void>;
  /** Starts it again after it has ended by itself. */
  startAgain(options?: StartOptions): Promise<void>;
  /** Breaks the runner's stream off, and waits until jobgate has noticed: until then it delivers to that stream. */
  stopRunner(): Promise<void>;
  /** Breaks the runner's stream off, and subscribes anew. */
  replaceRunner(): Promise<void>;
  stop(): Promise<void>;
}

interface StartOptions {
  /** Runs jobgate as a separate process, which can be killed. Default: within this process, which starts faster. */
  readonly asProcess?: boolean;
  /** Environment of a process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Command that executes the process; default: none. */
  readonly through?: readonly string[];
  /** Changes the configuration, for later starts too. */
  readonly edit?: (config: string) => string;
}

export interface PaidGatewayOptions extends StartOptions {
  readonly parts: PaidParts;
  readonly setUp: SetUp;
  /** Default: USDC. */
  readonly tokens?: readonly Token[];
  /** Default 10 s: also how long a request waits for the chain. */
  readonly facilitatorTimeoutSecs?: number;
  readonly confirmations?: number;
  /** Rate of every token, as TOML. Default: 3200 tokens per native unit. */
  readonly rate?: string;
  readonly maxPending?: number;
  /** Puts a proxy between jobgate and the RPC, for faults. Without it each request takes half of the CPU. */
  readonly rpcFaults?: boolean;
  /** A Postgres store; default: a SQLite file. */
  readonly storeUrl?: string;
  /** Default 60 s. */
  readonly leaseSecs?: number;
  /** Periods of a jobgate within this process. */
  readonly periods?: Partial<X402Periods>;
  /** Level of the log of a jobgate within this process. Default: info. */
  readonly logLevel?: "info" | "trace";
  /** Default: acks each JobCall. */
  readonly handle?: JobHandler;
  /** Jobs that its runner takes. Default: all. */
  readonly jobIds?: readonly bigint[];
}

export async function startPaidGateway(options: PaidGatewayOptions): Promise<PaidGateway> {
  const { parts, periods = {}, logLevel } = options;
  const folder = await mkdtemp(join(tmpdir(), "jobgate-money-"));
  const facilitatorProxy = await startFaultProxy({ target: parts.facilitator.url });
  const rpcProxy = options.rpcFaults ? await startFaultProxy({ target: parts.anvil.rpcUrl }) : undefined;
  let config = configOf(options, facilitatorProxy.url, rpcProxy?.url ?? parts.anvil.rpcUrl);
  const delivered: JobCall[] = [];
  let jobgate: Jobgate;
  let runner: Runner;

  async function subscribe(): Promise<void> {
    runner = await startRunner({
      address: jobgate.runnerAddress,
      jobIds: options.jobIds ?? [],
      handle(call) {
        delivered.push(call);
        return options.handle?.(call);
      },
    });
  }
  async function start({
    env,
    through = [],
    asProcess = env !== undefined,
    edit = (same) => same,
  }: StartOptions): Promise<void> {
    config = edit(config);
    jobgate = asProcess
      ? await startJobgate({ config, folder, through, ...(env && { env }) })
      : await startEmbeddedJobgate({ config, folder, periods, ...(logLevel && { logLevel }) });
    await subscribe();
  }
  async function startAgain(starting: StartOptions = {}): Promise<void> {
    await jobgate.exited;
    runner.kill();
    await start(starting);
  }
  await start(options);
  const journal =
    options.storeUrl === undefined
      ? openJournal(join(folder, "jobgate.db"))
      : await openPostgresJournal(options.storeUrl);

  const jobsWith = (body: string) => delivered.filter((call) => Buffer.from(call.body).toString() === body);

  const mcpUrl = () => `${jobgate.x402Url}/mcp`;
  function at(protocol: ProtocolName): ProtocolClient {
    const urlOf = (job = 0) =>
      `${jobgate.x402Url}/${protocol === "blueprintevm" ? "mpp" : "x402"}/jobs/1/${job}`;
    return {
      urlOf,
      async sign({ account = accounts.payer, job = 0, body, headers, option = 0, again, ...signing } = {}) {
        const [{ v2: offer }, challenges, chainTime] = await Promise.all([
          requestOffer(at("x402").urlOf(job), body, headers),
          paysByX402(protocol) ? [] : requestChallenges(urlOf(job), body),
          parts.chainTimeSecs(),
        ]);
        const validBefore = String(Math.max(chainTime, Math.floor(Date.now() / 1000)) + 300);
        const authorization = { validBefore, ...again?.signed.authorization, ...signing.authorization };
        const challenge = again?.credential?.challenge ?? challenges[option];
        if (challenge === undefined)
          return signV2Payment({ ...signing, account, authorization, offer, option });
        const payment = await signChallenge({ account, authorization, challenge });
        const accepted = offer.accepts[option] as PaymentRequirements;
        return { ...payment, payload: { x402Version: 2, accepted, payload: { ...payment.signed } } };
      },
      async send(payment, sending = {}) {
        if (protocol.endsWith("mcp")) {
          const { job = 0, body = "work" } = sending;
          const headers = { ...payment.headers, ...sending.headers };
          return (await buyTool(mcpUrl(), { name: `job-1-${job}`, body, headers })) as unknown as Answer;
        }
        if (protocol === "a2a") {
          const { job = 0, body = "work" } = sending;
          const headers = { ...payment.headers, ...sending.headers };
          const skillId = `job-1-${job}`;
          return (await buyTask(`${jobgate.x402Url}/a2a`, { skillId, body, headers })) as unknown as Answer;
        }
        const response = await post(urlOf(sending.job), {
          headers: { ...payment.headers, ...sending.headers },
          body: sending.body ?? "work",
          signal: sending.signal ?? AbortSignal.timeout(55_000),
        });
        return toAnswer(response);
      },
    };
  }
  const { send, sign, urlOf } = at("x402");

  return {
    get jobgate() {
      return jobgate;
    },
    facilitatorProxy,
    get rpcProxy() {
      if (rpcProxy === undefined) throw new Error("this gateway was started without rpcFaults");
      return rpcProxy;
    },
    journal,
    delivered,
    get runner() {
      return runner;
    },
    urlOf,
    jobsWith,
    at,
    sign,
    send,
    async sendUntilDecided(payment, { timeoutMs = 50_000, ...sending } = {}) {
      let last: Answer | undefined;
      const decided = async () => {
        last = await send(payment, sending);
        return last.status === 503 ? undefined : last;
      };
      return until(decided, { waitMs: timeoutMs, details: () => JSON.stringify(last) });
    },
    duringSettle: (deed, payment) =>
      facilitatorProxy.during(
        {
          path: "/settle",
          when: ({ body }) => payment === undefined || body.includes(payment.signed.authorization.nonce),
        },
        deed,
      ),
    async waitForJobs(body, count = 1) {
      await expect
        .poll(() => jobsWith(body).length, { interval: 10 })
        .toBeGreaterThanOrEqual(count)
        .catch((cause: unknown) => {
          const logs = jobgate.logs.slice(-20).join("\n");
          throw new Error(`${jobsWith(body).length} of ${count} JobCalls ${body} came:\n${logs}`, { cause });
        });
      return jobsWith(body);
    },
    async restart({ signal = "SIGTERM", ...starting } = {}) {
      jobgate.kill(signal);
      await startAgain(starting);
    },
    startAgain,
    async stopRunner() {
      runner.kill();
      const operator = createOperatorClient({ address: { url: jobgate.operatorUrl } });
      await until(async () => (await operator.listRunners({})).runners.length === 0);
    },
    async replaceRunner() {
      runner.kill();
      await subscribe();
    },
    async stop() {
      // A runner that leaves with a job in hand makes the stop wait for the end of the drain.
      await jobgate.stop();
      runner.kill();
      await journal.close();
      await Promise.all([facilitatorProxy.stop(), rpcProxy?.stop()]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Metadata of a JobCall that its request's headers gave it. */
export function httpMetadata(call: JobCall | undefined): Record<string, string> {
  return Object.fromEntries(
    Object.entries(call?.metadata ?? {}).filter(([name]) => name.startsWith("X-HTTP-")),
  );
}

async function toAnswer(response: Response): Promise<Answer> {
  const { code, charged, payment, retryable, call_id, receipt, access_token } =
    (await response.json()) as Answer;
  const retryAfter = response.headers.get("retry-after");
  const settlement = response.headers.get("payment-response");
  const answer: Record<string, unknown> = {
    status: response.status,
    code,
    charged,
    payment,
    retryable,
    call_id,
    receipt,
    access_token,
  };
  if (retryAfter !== null) answer.retryAfter = retryAfter;
  const paymentReceipt = readBase64Json(response.headers.get("payment-receipt"));
  if (paymentReceipt !== undefined) answer.paymentReceipt = paymentReceipt;
  if (settlement !== null) answer.settlement = decodePaymentResponseHeader(settlement);
  return answer as unknown as Answer;
}
