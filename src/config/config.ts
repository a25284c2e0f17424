import * as z from "zod";
import { CALLBACK_EVENTS } from "../core/callbacks.ts";
import { defined } from "../core/objects.ts";
import { type Checked, type Complete, required } from "./check-shape.ts";
import { jobSchema } from "./jobs.ts";
import {
  address,
  bearerTokens,
  days,
  integer,
  oneOf,
  seconds,
  secretList,
  secretOrArray,
  text,
  trueOrFalse,
  u64,
} from "./value-types.ts";
import { toWebhooksConfig, webhooksSchema } from "./webhooks.ts";
import { type FileContents, jobPricingSchema, toX402Config, x402Schema } from "./x402.ts";

/*
 * The keys of the configuration file, with their types and defaults. Each key is spelled as in the Config that comes out;
 * the file has it in snake case, and has seconds where the Config has milliseconds (`leaseMs` is `lease_secs`).
 * rules/ checks keys against each other. A test compares the keys with docs/configuration.md.
 */

const pemFile = () => text("the path of a PEM file");

/** Ages, since the end, from which the store forgets. Absent: kept. */
const retention = z.object({
  /** Results, and how paid calls ended: until then their clients can ask for them. */
  resultsDays: days().default(30),
  /** Finished JobCalls in the operator's lists. */
  callsDays: days().default(90),
  paymentsDays: days().optional(),
  deadLettersDays: days().optional(),
});

const store = z.object({
  /** `sqlite:PATH` or `postgres://…`. A relative path is relative to the working directory. */
  url: storeUrl().default("sqlite:jobgate.db"),
  /** Unfinished JobCalls, over all replicas, above which new work is refused. */
  maxPending: integer(1, 1_000_000_000).default(100_000),
  /** Postgres connections of this process. Default 10. */
  poolSize: integer(4, 1_000).optional(),
  /** Wait at the start for a Postgres that is not reachable yet. Default 60 s. */
  connectTimeoutMs: seconds(0).optional(),
  /** Default: the `sslmode` of the URL; without one, `verify-full` unless the host is loopback or a Unix socket. */
  tls: oneOf(["disable", "require", "verify-full"]).optional(),
  /** PEM file with the authorities to trust for Postgres, instead of the well-known ones. */
  ca: pemFile().optional(),
  retention: retention.prefault({}),
});

const runnerTls = z.object({
  cert: pemFile(),
  key: pemFile(),
  /** Authorities whose client certificates are accepted. Absent: no client certificate is requested. */
  clientCa: pemFile().optional(),
});

const runner = z.object({
  bindAddress: bindAddress().prefault("127.0.0.1:8403"),
  token: bearerTokens().optional(),
  leaseMs: seconds(0.001).default(60_000),
  /** Deliveries after which a JobCall is a dead letter. */
  maxAttempts: integer(1, 1_000_000).default(10),
  retryBaseMs: seconds(0).default(1_000),
  retryMaxMs: seconds(0).default(300_000),
  /** Time that runners have to finish their work when jobgate stops. */
  drainMs: seconds(0).default(20_000),
  tls: runnerTls.optional(),
});

const operator = z.object({
  bindAddress: bindAddress().prefault("127.0.0.1:8405"),
  token: bearerTokens().optional(),
});

const pricingEngine = z.object({
  /** Without a trailing slash. */
  url: baseUrl(),
  bindAddress: tcpAddress().prefault("127.0.0.1:8404"),
  /** EIP-712 domain of the operator's quotes, and their signer: all three keys, or none. */
  chainId: integer(1, Number.MAX_SAFE_INTEGER).optional(),
  verifyingContract: address().optional(),
  operatorAddress: address().optional(),
  /** Leading zero bits of the proofs of work that the engine asks for. */
  proofOfWorkBits: integer(0, 28).default(20),
});

/** An entry of `[[push]]`. rules/push.ts checks its keys against each other. */
const pushTarget = z.object({
  /** Receives each JobCall as one POST request. */
  url: httpUrl(),
  /** Only these jobs; empty means all. */
  jobIds: z.array(u64()).describe("an array of job IDs").default([]),
  /** Most requests in progress. */
  concurrency: integer(1, 1_000).default(8),
  /** Time for one request, its whole answer included. */
  timeoutMs: seconds(0.001).default(60_000),
  /** Keys that sign each request. Several while the receiver changes from one to the next. */
  secret: secretOrArray(text("a Standard Webhooks key (whsec_ and base64)"), "keys").optional(),
});

/** An entry of `[[callbacks]]`. rules/callbacks.ts checks its keys against each other. */
const callback = z.object({
  /** Is told of each event by one POST request. */
  url: httpUrl(),
  events: z
    .array(oneOf(CALLBACK_EVENTS))
    .min(1)
    .describe(`an array of events: ${CALLBACK_EVENTS.map((event) => `"${event}"`).join(", ")}`),
  /** Keys that sign each request, in place of `callbackKey`. Several while the receiver changes from one to the next. */
  secret: secretOrArray(text("a Standard Webhooks key (whsec_ and base64)"), "keys").optional(),
});

/** The jobs of `[x402]` as tools of an MCP server. */
const mcp = z.object({
  enabled: trueOrFalse().default(false),
  /** Origins of web pages that may use it, besides that of `publicUrl`. */
  allowedOrigins: z
    .array(webOrigin())
    .describe('an array of origins, such as ["https://agent.example"], or ["*"]')
    .default([]),
});

export const configSchema = z.object({
  /** Stamped on webhook JobCalls. */
  serviceId: u64().optional(),
  store: store.prefault({}),
  runner: runner.prefault({}),
  push: z.array(pushTarget).describe("an array of tables, one for each target").default([]),
  callbacks: z.array(callback).describe("an array of tables, one for each URL").default([]),
  /** Keys that sign callbacks to buyers, and to operators without a secret. Absent: one that the store keeps. */
  callbackKey: secretOrArray(
    text("an ed25519 key (whsk_ and base64), as env:NAME or file:PATH"),
    "keys",
  ).optional(),
  operator: operator.prefault({}),
  /** Absent: the gateway does not listen. */
  x402: x402Schema.optional(),
  jobs: z.array(jobSchema).describe("an array of tables, one for each job").default([]),
  jobPricing: jobPricingSchema.default({}),
  /** Absent: the gateway does not listen. */
  webhooks: webhooksSchema.optional(),
  pricingEngine: pricingEngine.optional(),
  mcp: mcp.optional(),
});

/** A file after its values are checked one by one, without those that are wrong. */
export type ConfigTables = Checked<z.output<typeof configSchema>>;

type CompleteTables = Complete<z.output<typeof configSchema>>;

/** The configuration after it is read, checked and completed. */
export type Config = Complete<ReturnType<typeof toConfig>>;
export type StoreConfig = Config["store"];
export type RunnerConfig = Config["runner"];
export type OperatorConfig = Config["operator"];

/** The part of a file that tells where the operator's API is. */
export const operatorSchema = z.object({ operator: operator.prefault({}) });
/** The part of a file that tells where the store is. */
export const storePlaceSchema = z.object({
  store: store.pick({ url: true, tls: true, ca: true }).prefault({}),
});
export type CallbackTable = Checked<z.output<typeof callback>>;
export type PushTable = Checked<z.output<typeof pushTarget>>;

export type CallbackConfig = Complete<ReturnType<typeof toCallback>>;
export type PushTargetConfig = Complete<ReturnType<typeof toPushTarget>>;
export type PricingEngineConfig = Complete<ReturnType<typeof toPricingEngineConfig>>;
/** EIP-712 domain and signer of the operator's quotes. */
export type QuoteSigning = Complete<ReturnType<typeof toSigning>>;
export type {
  FacilitatorConfig,
  FacilitatorServiceConfig,
  LocalFacilitatorConfig,
  RemoteFacilitatorConfig,
} from "./facilitators.ts";
export type { JobPolicy, JobRestriction } from "./job-policies.ts";
export type { Job, JobInput } from "./jobs.ts";
export type { MinCharge } from "./value-types.ts";
export type {
  WebhookAuth,
  WebhookChallenge,
  WebhookDedupe,
  WebhookEndpoint,
  WebhookSecret,
  WebhooksConfig,
} from "./webhooks.ts";
export type {
  AcceptedToken,
  MppConfig,
  RateSource,
  ReceiptsConfig,
  RefundsConfig,
  X402Config,
  X402Limits,
} from "./x402.ts";

import { baseUrl, bindAddress, httpUrl, storeUrl, tcpAddress, webOrigin } from "./web-types.ts";

/** A problem with a peer, at the configuration key that names the peer. */
export interface PeerProblem {
  readonly path: readonly (string | number)[];
  /** Never contains the URL, which may contain a key. */
  readonly message: string;
}

/** Contents of the PEM files, absent where no key names one. */
export interface TlsFiles {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly clientCa: string | undefined;
  readonly storeCa: string | undefined;
}

/** Completes the tables of a file without mistakes. */
export function toConfig(
  tables: CompleteTables,
  { tls, ...files }: FileContents & { readonly tls: TlsFiles },
) {
  const {
    store,
    push,
    callbacks,
    callbackKey,
    operator,
    x402,
    jobs,
    jobPricing,
    webhooks,
    pricingEngine,
    mcp,
  } = tables;
  const ownServiceId = serviceIdOf(tables);
  return defined({
    store: defined({ ...store, ca: store.ca && required(tls.storeCa) }),
    runner: toRunner(tables.runner, tls),
    operator: toOperator(operator),
    /** u64 */
    serviceId: ownServiceId,
    push: push.map(toPushTarget),
    callbacks: callbacks.map(toCallback),
    /** Each signs; empty if the store keeps the key. */
    callbackKeys: secretList(callbackKey),
    x402: x402 && toX402Config(x402, { pricing: jobPricing, jobs, serviceId: ownServiceId, files, mcp }),
    webhooks: webhooks && toWebhooksConfig(webhooks),
    pricingEngine: pricingEngine && toPricingEngineConfig(pricingEngine),
  });
}

/** Returns the gateway's service: that of webhook JobCalls, and of jobs that name none. */
export function serviceIdOf({
  serviceId,
  x402,
}: {
  readonly serviceId?: bigint | undefined;
  readonly x402?: { readonly serviceId?: bigint | undefined } | undefined;
}): bigint {
  return serviceId ?? x402?.serviceId ?? 0n;
}

function toRunner({ token, tls, ...runner }: CompleteTables["runner"], files: TlsFiles) {
  return defined({
    ...runner,
    /** Any of them is accepted; empty if none is needed. */
    tokens: secretList(token),
    /** PEM texts. */
    tls: tls && defined({ cert: required(files.cert), key: required(files.key), clientCa: files.clientCa }),
  });
}

export function toOperator({ token, ...operator }: Pick<CompleteTables, "operator">["operator"]) {
  return {
    ...operator,
    /** Any of them is accepted; empty if none is needed. */
    tokens: secretList(token),
  };
}

function toPushTarget({ secret, ...target }: CompleteTables["push"][number]) {
  return { ...target, secrets: secretList(secret) };
}

function toCallback({ secret, ...callback }: CompleteTables["callbacks"][number]) {
  /** Empty: signed with the `callbackKeys`. */
  return { ...callback, secrets: secretList(secret) };
}

type EngineTable = NonNullable<CompleteTables["pricingEngine"]>;

function toPricingEngineConfig(engine: EngineTable) {
  const { url, bindAddress, proofOfWorkBits } = engine;
  /** Absent: quotes cannot be checked, so they cannot be paid. */
  const signing = engine.chainId === undefined ? undefined : toSigning(engine);
  return defined({ url, bindAddress, proofOfWorkBits, signing });
}

function toSigning({ chainId, verifyingContract, operatorAddress }: EngineTable) {
  return {
    chainId: required(chainId),
    verifyingContract: required(verifyingContract),
    operatorAddress: required(operatorAddress),
  };
}
