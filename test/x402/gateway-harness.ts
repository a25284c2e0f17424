import { onTestFinished } from "vitest";
import { X402Gateway } from "../../src/api/x402.ts";
import type { X402Config } from "../../src/config/config.ts";
import { toRemoteFacilitator } from "../../src/config/facilitators.ts";
import type { Clock } from "../../src/core/clock.ts";
import type { HttpServer } from "../../src/http/server.ts";
import type { Store } from "../../src/store/store.ts";
import type { Methods } from "../../src/x402/methods/methods.ts";
import type { LoadX402Parts } from "../../src/x402/part.ts";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import { type Log, startLog } from "../helpers/log.ts";
import { openTestStore } from "../helpers/test-store.ts";
import { PRICE_WEI, USDC } from "./payments.ts";

export const MAX_BODY = 1_000;
/** Address of the contract that grants permissions. */
export const PERMISSIONS = accounts.stranger.address;
export const PUBLIC_URL = "https://operator.example.com";

/** A port without a listener. */
const NOWHERE = "http://127.0.0.1:9";

interface TestConfig extends Partial<X402Config> {
  /** The only facilitator. */
  readonly facilitatorUrl?: string;
}

interface Options {
  readonly config?: TestConfig;
  /** RPC of the chain with the permissions contract. Default: no job is restricted. */
  readonly chainRpcUrl?: string;
  /** Default 1,000. */
  readonly maxPending?: number;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Store of another gateway. Default: one of its own. */
  readonly store?: Store;
  /** Server to share with others. Default: one of its own. */
  readonly server?: HttpServer;
  /** Default: those of the build. */
  readonly methods?: Methods;
  /** Default: the parts of this build. */
  readonly parts?: LoadX402Parts;
}

export interface Reply {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly headers: Headers;
}

/**
 * An embedded gateway with its own store. Job 0 is public, as is job 1 unless there is a chain with permissions for it, job 2
 * has a price but is disabled, job 9 has no price.
 */
export interface TestGateway {
  readonly gateway: X402Gateway;
  readonly store: Store;
  readonly config: X402Config;
  readonly errors: Log["lines"];
  /** Set once the gateway is started. */
  readonly url: string;
  jobUrl(job?: number): string;
  /** Signs a payment for a fresh offer. */
  sign(job?: number): ReturnType<typeof signV2Payment>;
  post(
    headers: Readonly<Record<string, string>>,
    options?: { readonly job?: number; readonly body?: string },
  ): Promise<Reply>;
  /** Reloads with another configuration. */
  reload(config: TestConfig): Promise<void>;
  stop(): Promise<void>;
}

export async function startTestGateway(options: Options = {}): Promise<TestGateway> {
  const opened = await openTestGateway(options);
  await opened.gateway.start();
  return opened;
}

/** Starts a gateway that stops when the test ends. */
export async function startAnotherGateway(options: Options = {}): Promise<TestGateway> {
  const another = await startTestGateway(options);
  onTestFinished(() => another.stop());
  return another;
}

/** Makes a gateway without starting it. */
export async function openTestGateway(options: Options = {}): Promise<TestGateway> {
  const { logger, lines: errors } = startLog("error");
  const { maxPending = 1_000, clock, server, methods, parts } = options;
  const opened = options.store === undefined ? await openTestStore({ maxPending, logger }) : undefined;
  const store = opened?.store ?? (options.store as Store);
  const config = configOf(options);
  const gateway = new X402Gateway({
    config,
    store,
    logger,
    ...(clock && { clock }),
    ...(server && { server }),
    ...(methods && { methods }),
    ...(parts && { parts }),
  });
  const jobUrl = (job = 0) => `http://${gateway.address}/x402/jobs/1/${job}`;
  return {
    gateway,
    store,
    config,
    errors,
    get url() {
      return `http://${gateway.address}`;
    },
    jobUrl,
    async sign(job) {
      const { v2 } = await requestOffer(jobUrl(job));
      return signV2Payment({ offer: v2, account: accounts.payer });
    },
    async post(headers, { job, body = "work" } = {}) {
      const response = await fetch(jobUrl(job), { method: "POST", headers, body });
      return {
        status: response.status,
        body: (await response.json()) as Reply["body"],
        headers: response.headers,
      };
    },
    reload: (config) => gateway.reload(configOf({ config })),
    async stop() {
      await gateway.stop();
      await opened?.stop();
    },
  };
}

function configOf({ config: given = {}, chainRpcUrl }: Options): X402Config {
  const { facilitatorUrl = NOWHERE, ...config } = given;
  const restriction = chainRpcUrl && {
    ...({ authMode: "delegated_caller_signature", chainContract: PERMISSIONS } as const),
    ...{ chainRpcUrl, permissionCacheSecs: 0 },
  };
  return {
    bindAddress: { kind: "tcp", host: "127.0.0.1", port: 0 },
    publicUrl: PUBLIC_URL,
    facilitators: [toRemoteFacilitator(facilitatorUrl)],
    facilitatorTimeoutMs: 30_000,
    quoteTtlSecs: 300,
    maxBodyBytes: MAX_BODY,
    corsOrigins: ["*"],
    maxUndecided: 100_000,
    maxOpenPerPayer: 256,
    settleMarginSecs: 60,
    defaultInvocationMode: "public_paid",
    acceptedTokens: [USDC],
    jobPolicies: [
      { serviceId: 1n, jobIndex: 2, invocationMode: "disabled" },
      ...(restriction
        ? [{ serviceId: 1n, jobIndex: 1, invocationMode: "restricted_paid" as const, restriction }]
        : []),
    ],
    priceSource: "map",
    jobPricing: new Map([0, 1, 2].map((job) => [`1/${job}`, PRICE_WEI])),
    limits: { maxUnpaidPerSecondPerClient: 1_000, maxVerifiesPerClient: 100, maxVerifies: 100 },
    parts: new Map(),
    ...config,
  };
}
