import { z } from "zod";
import type { Checked, Complete } from "./check-shape.ts";
import { required } from "./check-shape.ts";
import {
  address,
  baseUrl,
  bindAddress,
  headerSecret,
  integer,
  oneOf,
  seconds,
  storeUrl,
  tcpAddress,
  text,
  u64,
} from "./value-types.ts";
import { toWebhooksConfig, webhooksSchema } from "./webhooks.ts";
import { jobPricingSchema, toX402Config, x402Schema } from "./x402.ts";

/*
 * The keys of the configuration file, with their types and defaults. Each key is spelled as in the Config that comes out;
 * the file has it in snake case, and has seconds where the Config has milliseconds (`leaseMs` is `lease_secs`).
 * rules/ checks keys against each other. A test compares the keys with docs/configuration.md.
 */

const pemFile = () => text("the path of a PEM file");

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
});

const runnerTls = z.object({
  cert: pemFile(),
  key: pemFile(),
  /** Authorities whose client certificates are accepted. Absent: no client certificate is requested. */
  clientCa: pemFile().optional(),
});

const runner = z.object({
  bindAddress: bindAddress().prefault("127.0.0.1:8403"),
  token: headerSecret().optional(),
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
  token: headerSecret().optional(),
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

export const configSchema = z.object({
  /** Stamped on webhook JobCalls. */
  serviceId: u64().optional(),
  store: store.prefault({}),
  runner: runner.prefault({}),
  operator: operator.prefault({}),
  /** Absent: the gateway does not listen. */
  x402: x402Schema.optional(),
  jobPricing: jobPricingSchema.default({}),
  /** Absent: the gateway does not listen. */
  webhooks: webhooksSchema.optional(),
  pricingEngine: pricingEngine.optional(),
});

/** A file after its values are checked one by one, without those that are wrong. */
export type ConfigTables = Checked<z.output<typeof configSchema>>;

type CompleteTables = Complete<z.output<typeof configSchema>>;

/** The configuration after it is read, checked and completed. */
export type Config = Complete<ReturnType<typeof toConfig>>;
export type StoreConfig = Config["store"];
export type RunnerConfig = Config["runner"];
export type OperatorConfig = Config["operator"];
export type PricingEngineConfig = Complete<ReturnType<typeof toPricingEngineConfig>>;
/** EIP-712 domain and signer of the operator's quotes. */
export type QuoteSigning = Complete<ReturnType<typeof toSigning>>;
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
  JobPolicy,
  JobRestriction,
  RateSource,
  X402Config,
  X402Limits,
} from "./x402.ts";

/** Completes the tables of a file without mistakes. */
export function toConfig({
  serviceId,
  x402,
  jobPricing,
  webhooks,
  pricingEngine,
  ...tables
}: CompleteTables) {
  return {
    ...tables,
    /** u64 */
    serviceId: serviceId ?? x402?.serviceId ?? 0n,
    ...(x402 && { x402: toX402Config(x402, jobPricing) }),
    ...(webhooks && { webhooks: toWebhooksConfig(webhooks) }),
    ...(pricingEngine && { pricingEngine: toPricingEngineConfig(pricingEngine) }),
  };
}

type EngineTable = NonNullable<CompleteTables["pricingEngine"]>;

function toPricingEngineConfig(engine: EngineTable) {
  const { url, bindAddress, proofOfWorkBits } = engine;
  return {
    url,
    bindAddress,
    proofOfWorkBits,
    /** Absent: quotes cannot be checked, so they cannot be paid. */
    ...(engine.chainId !== undefined && { signing: toSigning(engine) }),
  };
}

function toSigning({ chainId, verifyingContract, operatorAddress }: EngineTable) {
  return {
    chainId: required(chainId),
    verifyingContract: required(verifyingContract),
    operatorAddress: required(operatorAddress),
  };
}
