import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type {
  AcceptedToken,
  Config,
  JobPolicy,
  PricingEngineConfig,
  RateSource,
  RunnerConfig,
  WebhooksConfig,
  X402Config,
} from "../config/config.ts";
import { addressText } from "../core/network-address.ts";

/** Makes the configuration that the operator sees. Only the values named here are shown, so a new secret stays hidden. */
export function toConfiguration(config: Config) {
  const { serviceId, store, runner, operator, x402, webhooks, pricingEngine } = config;
  return {
    serviceId,
    store: { url: storeText(store.url), maxPending: BigInt(store.maxPending) },
    runner: toRunner(runner),
    operator: { bindAddress: addressText(operator.bindAddress), hasToken: operator.token !== undefined },
    ...(x402 ? { x402: toX402(x402) } : {}),
    ...(webhooks ? { webhooks: toWebhooks(webhooks) } : {}),
    ...(pricingEngine ? { pricingEngine: toPricingEngine(pricingEngine) } : {}),
  };
}

function toRunner(runner: RunnerConfig) {
  return {
    bindAddress: addressText(runner.bindAddress),
    hasToken: runner.token !== undefined,
    hasTls: runner.tls !== undefined,
    hasClientCa: runner.tls?.clientCa !== undefined,
    lease: durationFromMs(runner.leaseMs),
    maxAttempts: runner.maxAttempts,
    retryBase: durationFromMs(runner.retryBaseMs),
    retryMax: durationFromMs(runner.retryMaxMs),
    drain: durationFromMs(runner.drainMs),
  };
}

function toX402(x402: X402Config) {
  const { limits } = x402;
  return {
    bindAddress: addressText(x402.bindAddress),
    publicUrl: withoutSecrets(x402.publicUrl),
    facilitatorUrl: originOf(x402.facilitatorUrl),
    facilitatorTimeout: durationFromMs(x402.facilitatorTimeoutMs),
    quoteTtl: durationFromMs(x402.quoteTtlSecs * 1_000),
    maxBodyBytes: BigInt(x402.maxBodyBytes),
    defaultInvocationMode: x402.defaultInvocationMode,
    priceSource: x402.priceSource,
    acceptedTokens: x402.acceptedTokens.map(toToken),
    jobPolicies: x402.jobPolicies.map(toPolicy),
    jobPrices: [...x402.jobPricing].map(toPrice),
    maxUnpaidPerSecondPerClient: limits.maxUnpaidPerSecondPerClient,
    maxVerifiesPerClient: limits.maxVerifiesPerClient,
    maxVerifies: limits.maxVerifies,
    maxUndecided: x402.maxUndecided,
    maxOpenPerPayer: x402.maxOpenPerPayer,
  };
}

function toToken(token: AcceptedToken) {
  const { network, asset, symbol, decimals, payTo, rate, markupBps, transferMethod, rpcUrl } = token;
  const { confirmations, requireOnchainConfirmation } = token;
  return {
    ...{ network, asset, symbol, decimals, payTo, markupBps, transferMethod },
    ...{ confirmations, requireOnchainConfirmation },
    rateSource: rate.kind,
    rateUrl: rateUrl(rate),
    rpcUrl: originOf(rpcUrl),
  };
}

function rateUrl(rate: RateSource): string {
  switch (rate.kind) {
    case "fixed":
      return "";
    case "chainlink":
      return originOf(rate.rpcUrl);
    case "http":
      return originOf(rate.url);
  }
}

function toPolicy({ serviceId, jobIndex, invocationMode, restriction }: JobPolicy) {
  const { authMode = "", chainContract = "", chainRpcUrl } = restriction ?? {};
  return { serviceId, jobIndex, invocationMode, authMode, chainContract, chainRpcUrl: originOf(chainRpcUrl) };
}

function toPrice([job, priceWei]: readonly [string, bigint]) {
  const [serviceId = "", jobIndex = ""] = job.split("/");
  return { serviceId: BigInt(serviceId), jobIndex: Number(jobIndex), priceWei: String(priceWei) };
}

function toWebhooks({ bindAddress, maxBodyBytes, endpoints }: WebhooksConfig) {
  return {
    bindAddress: addressText(bindAddress),
    maxBodyBytes: BigInt(maxBodyBytes),
    endpoints: endpoints.map(({ path, jobId, auth, name = "" }) => ({ path, jobId, auth: auth.mode, name })),
  };
}

function toPricingEngine({ url, bindAddress, proofOfWorkBits, signing }: PricingEngineConfig) {
  return {
    url: originOf(url),
    bindAddress: addressText(bindAddress),
    proofOfWorkBits,
    checksQuotes: signing !== undefined,
  };
}

/** Scheme, host and port of a URL; user, path and query may each hold a key. Empty if there is no URL. */
function originOf(url: string | undefined): string {
  if (url === undefined || !URL.canParse(url)) return "";
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
}

/** A URL whose path is public: one that clients see, or one that names a database. */
function withoutSecrets(url: string): string {
  if (!URL.canParse(url)) return "";
  const { pathname } = new URL(url);
  return `${originOf(url)}${pathname === "/" ? "" : pathname}`;
}

function storeText(url: string): string {
  return url.startsWith("sqlite:") ? url : withoutSecrets(url);
}
