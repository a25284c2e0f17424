import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type {
  AcceptedToken,
  Config,
  FacilitatorConfig,
  Job,
  JobPolicy,
  MinCharge,
  RateSource,
  RunnerConfig,
  WebhookEndpoint,
  WebhooksConfig,
  X402Config,
} from "../../config/config.ts";
import { decimalText } from "../../core/amounts.ts";
import { addressText, ipRangeText } from "../../core/network-address.ts";
import { priceText } from "../../core/price.ts";
import { accountOf } from "../../core/private-keys.ts";
import type { ConfigurationSchema } from "../../gen/jobgate/v1/configuration_pb.ts";

/** Makes the configuration that the operator sees. It shows only the values named here, so new secrets stay hidden. */
export function toConfiguration(config: Config): MessageInitShape<typeof ConfigurationSchema> {
  return [...config.parts].reduce<Record<string, unknown>>(
    (shown, [table, own]) => merged(shown, table.show(own, config)),
    ofCore(config),
  );
}

function ofCore(config: Config) {
  const { serviceId, store, runner } = config;
  const { operator, x402, webhooks } = config;
  return {
    serviceId,
    store: toStore(store),
    runner: toRunner(runner),
    operator: { bindAddress: addressText(operator.bindAddress), hasToken: operator.tokens.length > 0 },
    ...(x402 ? { x402: toX402(x402) } : {}),
    ...(webhooks ? { webhooks: toWebhooks(webhooks) } : {}),
  };
}

/** Adds what parts show to the tables that they are in. */
function merged(shown: Record<string, unknown>, ofPart: object): Record<string, unknown> {
  const added = Object.entries(ofPart).map(([key, value]: [string, unknown]) => {
    const own = shown[key];
    const isInTable = typeof own === "object" && own !== null && !Array.isArray(own);
    return [key, isInTable ? merged(own as Record<string, unknown>, value as object) : value];
  });
  return { ...shown, ...Object.fromEntries(added) };
}

function toStore({ url, maxPending, poolSize = 0, tls }: Config["store"]) {
  return { url: storeText(url), maxPending: BigInt(maxPending), poolSize, tls: tls ?? "" };
}

function toRunner(runner: RunnerConfig) {
  return {
    bindAddress: addressText(runner.bindAddress),
    hasToken: runner.tokens.length > 0,
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
    facilitatorUrl: originOf(remoteUrl(x402)),
    facilitatorTimeout: durationFromMs(x402.facilitatorTimeoutMs),
    quoteTtl: durationFromMs(x402.quoteTtlSecs * 1_000),
    maxBodyBytes: BigInt(x402.maxBodyBytes),
    defaultInvocationMode: x402.defaultInvocationMode,
    priceSource: x402.priceSource,
    acceptedTokens: x402.acceptedTokens.map(toToken),
    jobPolicies: x402.jobPolicies.map(toPolicy),
    jobPrices: [...ownPrices(x402), ...[...x402.jobPricing].map(toPrice)],
    maxUnpaidPerSecondPerClient: limits.maxUnpaidPerSecondPerClient,
    maxVerifiesPerClient: limits.maxVerifiesPerClient,
    maxVerifies: limits.maxVerifies,
    maxUndecided: x402.maxUndecided,
    maxOpenPerPayer: x402.maxOpenPerPayer,
    settleMargin: durationFromMs(x402.settleMarginSecs * 1_000),
    corsOrigins: [...x402.corsOrigins],
    trustedProxies: (x402.trustedProxies ?? []).map(ipRangeText),
    facilitators: x402.facilitators.map(toFacilitator),
    ...(x402.callbacks ? { callbacks: toBuyerCallbacks(x402.callbacks) } : {}),
    serviceName: x402.serviceName ?? "",
    forwardHeaders: [...(x402.forwardHeaders ?? [])],
    jobs: (x402.jobs ?? []).map(toJob),
  };
}

function toBuyerCallbacks({ ports, allowedAddresses }: NonNullable<X402Config["callbacks"]>) {
  return { ports: [...ports], allowedAddresses: allowedAddresses.map(ipRangeText) };
}

/** Describes a job without what its price, its policy and its promise say, and what the job list says. */
function toJob(job: Job) {
  const { serviceId, jobIndex, name = "", charge = ["fixed"], minCharge, maxRunSecs } = job;
  return {
    ...{ serviceId, jobIndex, name, charge: [...charge] },
    minCharge: minCharge === undefined ? "" : minChargeText(minCharge),
    requirePaymentIdentifier: job.requirePaymentIdentifier === true,
    forwardHeaders: [...(job.forwardHeaders ?? [])],
    ...(maxRunSecs === undefined ? {} : { maxRun: durationFromMs(maxRunSecs * 1_000) }),
  };
}

function minChargeText(minCharge: MinCharge): string {
  return "unit" in minCharge ? priceText(minCharge) : `${minCharge.basisPoints / 100}%`;
}

function remoteUrl({ facilitators }: X402Config): string | undefined {
  return facilitators.flatMap((one) => (one.kind === "remote" ? one.url : []))[0];
}

function toFacilitator(facilitator: FacilitatorConfig) {
  const { name } = facilitator;
  if (facilitator.kind === "remote") {
    const { headers, cdp, networks = [] } = facilitator;
    return { name, auth: cdp ? "cdp" : headers ? "headers" : "", networks: [...networks] };
  }
  const { signers, chains, maxFeePerGasWei, minBalanceWei } = facilitator;
  return {
    name,
    networks: chains.map(({ network }) => network),
    signers: signers.length,
    accounts: signers.map(({ privateKey }) => accountOf(privateKey)),
    rpcUrls: chains.map(({ rpcUrl }) => originOf(rpcUrl)),
    maxFeePerGasGwei: decimalText(maxFeePerGasWei, 9),
    minBalance: decimalText(minBalanceWei, 18),
  };
}

function toToken(token: AcceptedToken) {
  const { network, asset, symbol, decimals, payTo, rate, markupBps, transferMethod, rpcUrl } = token;
  const { currency = "", eip3009, confirmations, requireOnchainConfirmation } = token;
  return {
    ...{ network, asset, symbol, decimals, currency, payTo, markupBps, transferMethod },
    ...{ confirmations, requireOnchainConfirmation },
    eip3009Name: eip3009?.name ?? "",
    eip3009Version: eip3009?.version ?? "",
    ...(rate && toRate(rate)),
    rpcUrl: originOf(rpcUrl),
  };
}

function toRate(rate: RateSource) {
  const { kind: rateSource } = rate;
  if (rate.kind === "fixed") return { rateSource, ratePerNativeUnit: rate.ratePerNativeUnit };
  const isOnChain = rate.kind === "chainlink";
  return {
    rateSource,
    rateUrl: originOf(isOnChain ? rate.rpcUrl : rate.url),
    rateFeed: isOnChain ? rate.feed : "",
    rateMaxAge: durationFromMs(rate.maxAgeMs),
    rateRefresh: durationFromMs(rate.refreshMs),
  };
}

function toPolicy({ serviceId, jobIndex, invocationMode, restriction }: JobPolicy) {
  const policy = { serviceId, jobIndex, invocationMode };
  if (restriction === undefined) return policy;
  const { authMode, chainContract, chainRpcUrl, permissionCacheSecs } = restriction;
  const permissionCache = durationFromMs(permissionCacheSecs * 1_000);
  return { ...policy, authMode, chainContract, chainRpcUrl: originOf(chainRpcUrl), permissionCache };
}

function toPrice([job, priceWei]: readonly [string, bigint]) {
  const [serviceId = "", jobIndex = ""] = job.split("/");
  return { serviceId: BigInt(serviceId), jobIndex: Number(jobIndex), priceWei: String(priceWei) };
}

function ownPrices({ jobs = [] }: X402Config) {
  return jobs.flatMap(({ serviceId, jobIndex, price }) => {
    if (price === undefined) return [];
    const job = { serviceId, jobIndex };
    if (price === "engine") return { ...job, price };
    return price.unit === "wei"
      ? { ...job, priceWei: String(price.amount) }
      : { ...job, price: priceText(price) };
  });
}

function toWebhooks({ bindAddress, maxBodyBytes, endpoints, trustedProxies = [] }: WebhooksConfig) {
  return {
    bindAddress: addressText(bindAddress),
    maxBodyBytes: BigInt(maxBodyBytes),
    endpoints: endpoints.map(toEndpoint),
    trustedProxies: trustedProxies.map(ipRangeText),
  };
}

function toEndpoint(endpoint: WebhookEndpoint) {
  const { path, jobId, auth, name = "", dedupe, challenge, rateLimitPerSecond = 0 } = endpoint;
  return {
    ...{ path, jobId, auth: auth.mode, name, rateLimitPerSecond },
    secrets: auth.mode === "none" ? [] : auth.secrets.map(({ name }) => name),
    apiKeyHeader: auth.mode === "api-key" ? auth.header : "",
    ...("toleranceSecs" in auth ? { tolerance: durationFromMs(auth.toleranceSecs * 1_000) } : {}),
    ...(dedupe && {
      dedupe: dedupe.by === "header" ? dedupe.header : dedupe.by,
      dedupeWindow: durationFromMs(dedupe.windowMs),
    }),
    challenge: challenge ? `${challenge.method} ${challenge.parameter}` : "",
    allowCidrs: (endpoint.allowCidrs ?? []).map(ipRangeText),
    forwardHeaders: [...(endpoint.forwardHeaders ?? [])],
  };
}

/** Scheme, host and port of a URL; user, path and query may each hold a key. Empty if there is no URL. */
function originOf(url: string | undefined): string {
  if (url === undefined || !URL.canParse(url)) return "";
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
}

/** A URL with a public path: one that clients see, or one that names a database. */
function withoutSecrets(url: string): string {
  if (!URL.canParse(url)) return "";
  const { pathname } = new URL(url);
  return `${originOf(url)}${pathname === "/" ? "" : pathname}`;
}

function storeText(url: string): string {
  return url.startsWith("sqlite:") ? url : withoutSecrets(url);
}
