import { z } from "zod";
import {
  address,
  baseUrl,
  bindAddress,
  headerSecret,
  httpUrl,
  idKey,
  integer,
  jsonPointer,
  label,
  maxBodyBytes,
  network,
  oneOf,
  rate,
  seconds,
  storeUrl,
  tcpAddress,
  text,
  trueOrFalse,
  u32,
  u64,
  wei,
} from "./value-types.ts";
import { webhooksSchema } from "./webhooks-schema.ts";

/*
 * The one truth about the file: its keys, their types, defaults and what is expected of them. What holds
 * between several keys is in rules/. docs/configuration.md tells of every key, which a test compares.
 */

const MARKUP_BPS = integer(0, 65_535);

const store = z.object({
  url: storeUrl().default("sqlite:jobgate.db"),
  max_pending: integer(1, 1_000_000_000).default(100_000n),
  pool_size: integer(4, 1_000).optional(),
  tls: oneOf(["disable", "require", "verify-full"]).optional(),
  ca: text("the path of a PEM file").optional(),
});

const runnerTls = z.object({
  cert: text("the path of a PEM file"),
  key: text("the path of a PEM file"),
  client_ca: text("the path of a PEM file").optional(),
});

const runner = z.object({
  bind_address: bindAddress().default("127.0.0.1:8403"),
  token: headerSecret().optional(),
  lease_secs: seconds(0.001).default(60),
  max_attempts: integer(1, 1_000_000).default(10n),
  retry_base_secs: seconds(0).default(1),
  retry_max_secs: seconds(0).default(300),
  drain_secs: seconds(0).default(20),
  tls: runnerTls.optional(),
});

const operator = z.object({
  bind_address: bindAddress().default("127.0.0.1:8405"),
  token: headerSecret().optional(),
});

/** How old a live rate may be, and how often it is asked for. */
const LIVE_RATE_TIMES = {
  max_age_secs: integer(1, 31_536_000),
  refresh_secs: seconds(0.001).optional(),
};

const rateSource = z.object({
  chainlink: z.object({ rpc_url: httpUrl(), feed: address(), ...LIVE_RATE_TIMES }).optional(),
  http: z.object({ url: httpUrl(), pointer: jsonPointer(), ...LIVE_RATE_TIMES }).optional(),
});

const acceptedToken = z.object({
  network: network(),
  asset: address(),
  symbol: label(),
  decimals: integer(0, 36),
  pay_to: address(),
  rate_per_native_unit: rate().optional(),
  rate_source: rateSource.optional(),
  markup_bps: MARKUP_BPS.optional(),
  transfer_method: oneOf(["eip3009", "permit2"]).default("eip3009"),
  eip3009_name: text().optional(),
  eip3009_version: text().optional(),
  rpc_url: httpUrl().optional(),
  confirmations: integer(1, 10_000).default(1n),
  require_onchain_confirmation: trueOrFalse().optional(),
});

const jobPolicy = z.object({
  service_id: u64(),
  job_index: u32(),
  invocation_mode: oneOf(["disabled", "public_paid", "restricted_paid"]),
  auth_mode: oneOf(["payer_is_caller", "delegated_caller_signature"]).optional(),
  chain_rpc_url: httpUrl().optional(),
  chain_contract: address().optional(),
  tangle_rpc_url: httpUrl().optional(),
  tangle_contract: address().optional(),
  permission_cache_secs: integer(0, 86_400).default(0n),
});

const x402Limits = z.object({
  max_unpaid_per_second_per_client: integer(1, 1_000_000).default(1000n),
  max_verifies_per_client: integer(1, 1_000_000).default(128n),
  max_verifies: integer(1, 1_000_000).default(512n),
});

const x402 = z.object({
  bind_address: tcpAddress().default("0.0.0.0:8402"),
  public_url: baseUrl().optional(),
  facilitator_url: baseUrl(),
  facilitator_timeout_secs: seconds(0.001).default(30),
  quote_ttl_secs: integer(1, 31_536_000).default(300n),
  max_body_bytes: maxBodyBytes(),
  rate_per_native_unit: rate().optional(),
  markup_bps: MARKUP_BPS.default(0n),
  default_invocation_mode: oneOf(
    ["disabled", "public_paid"],
    "restricted_paid needs a policy for each job",
  ).default("disabled"),
  price_source: oneOf(["map", "engine"]).default("map"),
  service_id: u64().optional(),
  limits: x402Limits.default({}),
  accepted_tokens: z.array(acceptedToken).describe("an array of tables, one for each token"),
  job_policies: z.array(jobPolicy).describe("an array of tables, one for each job").default([]),
});

const jobPricing = z.record(idKey(64), z.record(idKey(32), wei()).describe('a table of job_index = "wei"'));

const pricingEngine = z.object({
  url: baseUrl(),
  bind_address: tcpAddress().default("127.0.0.1:8404"),
  chain_id: integer(1, Number.MAX_SAFE_INTEGER).optional(),
  verifying_contract: address().optional(),
  operator_address: address().optional(),
  proof_of_work_bits: integer(0, 28).default(20n),
});

export const configSchema = z.object({
  service_id: u64().optional(),
  store: store.default({}),
  runner: runner.default({}),
  operator: operator.default({}),
  x402: x402.optional(),
  job_pricing: jobPricing.default({}),
  webhooks: webhooksSchema.optional(),
  pricing_engine: pricingEngine.optional(),
});

/** The file's content once every value is checked, converted and defaulted; keys as in the file. */
export type CheckedFile = z.output<typeof configSchema>;
