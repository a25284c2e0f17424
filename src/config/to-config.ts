import { jobKeyText } from "../core/job-call.ts";
import { localUrl } from "../core/network-address.ts";
import type {
  AcceptedToken,
  Config,
  JobPolicy,
  PricingEngineConfig,
  RateSource,
  RunnerConfig,
  StoreConfig,
  X402Config,
} from "./config.ts";
import { present, required } from "./present.ts";
import { isPostgresUrl } from "./rules/store.ts";
import { chainOf } from "./rules/x402.ts";
import type { CheckedFile } from "./schema.ts";
import { toWebhooks } from "./webhooks-to-config.ts";

type X402Table = NonNullable<CheckedFile["x402"]>;
type TokenTable = X402Table["accepted_tokens"][number];
type PolicyTable = X402Table["job_policies"][number];

/**
 * Turns a file without mistakes into what the parts of jobgate are given.
 * @param serviceId from the command line or the environment; goes before the file's own
 */
export function toConfig(file: CheckedFile, serviceId: bigint | undefined): Config {
  return {
    serviceId: serviceId ?? file.service_id ?? file.x402?.service_id ?? 0n,
    store: toStore(file.store),
    runner: toRunner(file.runner),
    operator: { bindAddress: file.operator.bind_address, ...present("token", file.operator.token) },
    ...present("x402", file.x402 && toX402(file.x402, file.job_pricing)),
    ...present("webhooks", file.webhooks && toWebhooks(file.webhooks)),
    ...present("pricingEngine", file.pricing_engine && toPricingEngine(file.pricing_engine)),
  };
}

function toStore({ url, max_pending, pool_size, tls, ca }: CheckedFile["store"]): StoreConfig {
  if (!isPostgresUrl(url)) return { url, maxPending: max_pending };
  const postgres = { ...present("poolSize", pool_size), ...present("tls", tls), ...present("ca", ca) };
  return { url, maxPending: max_pending, postgres };
}

function toRunner(runner: CheckedFile["runner"]): RunnerConfig {
  return {
    bindAddress: runner.bind_address,
    ...present("token", runner.token),
    leaseMs: runner.lease_secs,
    maxAttempts: runner.max_attempts,
    retryBaseMs: runner.retry_base_secs,
    retryMaxMs: runner.retry_max_secs,
    drainMs: runner.drain_secs,
    ...present(
      "tls",
      runner.tls && {
        cert: runner.tls.cert,
        key: runner.tls.key,
        ...present("clientCa", runner.tls.client_ca),
      },
    ),
  };
}

function toX402(x402: X402Table, pricing: CheckedFile["job_pricing"]): X402Config {
  return {
    bindAddress: x402.bind_address,
    publicUrl: x402.public_url ?? localUrl(x402.bind_address),
    facilitatorUrl: x402.facilitator_url,
    facilitatorTimeoutMs: x402.facilitator_timeout_secs,
    quoteTtlSecs: x402.quote_ttl_secs,
    maxBodyBytes: x402.max_body_bytes,
    defaultInvocationMode: x402.default_invocation_mode,
    acceptedTokens: x402.accepted_tokens.map((token) => toToken(token, x402)),
    jobPolicies: x402.job_policies.map(toPolicy),
    priceSource: x402.price_source,
    jobPricing: toPriceMap(pricing),
    limits: {
      maxUnpaidPerSecondPerClient: x402.limits.max_unpaid_per_second_per_client,
      maxVerifiesPerClient: x402.limits.max_verifies_per_client,
      maxVerifies: x402.limits.max_verifies,
    },
  };
}

function toToken(token: TokenTable, x402: X402Table): AcceptedToken {
  return {
    network: token.network,
    asset: token.asset,
    symbol: token.symbol,
    decimals: token.decimals,
    payTo: token.pay_to,
    rate: toRate(token, x402),
    markupBps: token.markup_bps ?? x402.markup_bps,
    // The rules have refused every other method.
    transferMethod: "eip3009",
    eip3009: { name: required(token.eip3009_name), version: required(token.eip3009_version) },
    ...present("rpcUrl", token.rpc_url),
    confirmations: token.confirmations,
    requireOnchainConfirmation: token.require_onchain_confirmation ?? token.rpc_url !== undefined,
  };
}

function toRate({ rate_source: live, rate_per_native_unit: own }: TokenTable, x402: X402Table): RateSource {
  if (live?.chainlink !== undefined) {
    const { rpc_url: rpcUrl, feed } = live.chainlink;
    return { kind: "chainlink", rpcUrl, feed, ...toLiveRateTimes(live.chainlink) };
  }
  if (live?.http !== undefined) {
    const { url, pointer } = live.http;
    return { kind: "http", url, pointer, ...toLiveRateTimes(live.http) };
  }
  return { kind: "fixed", ratePerNativeUnit: required(own ?? x402.rate_per_native_unit) };
}

const DEFAULT_REFRESH_MS = 5_000;

function toLiveRateTimes(live: { max_age_secs: number; refresh_secs?: number | undefined }) {
  const maxAgeMs = live.max_age_secs * 1000;
  return { maxAgeMs, refreshMs: live.refresh_secs ?? Math.min(DEFAULT_REFRESH_MS, maxAgeMs / 4) };
}

function toPolicy(policy: PolicyTable): JobPolicy {
  const job = {
    serviceId: policy.service_id,
    jobIndex: policy.job_index,
    invocationMode: policy.invocation_mode,
  };
  if (policy.invocation_mode !== "restricted_paid") return job;
  const { rpcUrl, contract } = chainOf(policy);
  return {
    ...job,
    restriction: {
      authMode: required(policy.auth_mode),
      chainRpcUrl: required(rpcUrl),
      chainContract: required(contract),
      permissionCacheSecs: policy.permission_cache_secs,
    },
  };
}

function toPriceMap(pricing: CheckedFile["job_pricing"]): ReadonlyMap<string, bigint> {
  const prices = new Map<string, bigint>();
  for (const [serviceId, jobs] of Object.entries(pricing)) {
    for (const [jobIndex, priceWei] of Object.entries(jobs ?? {})) {
      if (priceWei !== undefined) prices.set(jobKeyText(BigInt(serviceId), Number(jobIndex)), priceWei);
    }
  }
  return prices;
}

function toPricingEngine(engine: NonNullable<CheckedFile["pricing_engine"]>): PricingEngineConfig {
  const { chain_id, verifying_contract, operator_address } = engine;
  return {
    url: engine.url,
    bindAddress: engine.bind_address,
    proofOfWorkBits: engine.proof_of_work_bits,
    ...present(
      "signing",
      chain_id === undefined
        ? undefined
        : {
            chainId: chain_id,
            verifyingContract: required(verifying_contract),
            operatorAddress: required(operator_address),
          },
    ),
  };
}
