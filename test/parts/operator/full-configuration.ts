import { privateKeyToAccount } from "viem/accounts";
import type {
  AcceptedToken,
  Config,
  Job,
  JobPolicy,
  RemoteFacilitatorConfig,
  WebhookEndpoint,
} from "../../../src/config/config.ts";
import type { ConfigTable } from "../../../src/config/config-table.ts";
import { callbacksTable } from "../../../src/parts/callbacks/config.ts";
import { serviceTable } from "../../../src/parts/facilitator-service/config.ts";
import { mcpTable } from "../../../src/parts/mcp/config.ts";
import { mppTable } from "../../../src/parts/mpp/config.ts";
import { engineTable, type PricingEngineConfig } from "../../../src/parts/pricing-engine/config.ts";
import { type PushTargetConfig, pushTable } from "../../../src/parts/push/config.ts";
import { receiptsTable } from "../../../src/parts/receipts/config.ts";
import { refundsTable } from "../../../src/parts/refunds/config.ts";
import { retentionTable } from "../../../src/parts/retention/config.ts";

export const ADDRESS = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const tcp = (port: number) => ({ kind: "tcp", host: "127.0.0.1", port }) as const;

/** Prefix of every generated secret. */
export const SECRET = "sEcReT";
let count = 0;
const secret = (): string => `${SECRET}${++count}`;
/** A URL with a secret in every part that can hold one. */
const secretUrl = (scheme = "https"): string =>
  `${scheme}://${secret()}:${secret()}@host.example:444/v3/${secret()}?apikey=${secret()}#${secret()}`;
/** The public URL; its path is not secret. */
const publicUrl = (): string =>
  `https://${secret()}:${secret()}@host.example/jobgate?key=${secret()}#${secret()}`;

/** A value with everything that it can have, but for the entries of its lists. */
type Filled<Value> = Value extends readonly unknown[] | ReadonlyMap<unknown, unknown>
  ? Value
  : Value extends object
    ? {
        readonly [Key in keyof Value as [Value[Key]] extends [undefined] ? never : Key]-?: Filled<Value[Key]>;
      }
    : Value;

const RANGE = { address: "10.0.0.0", prefixBits: 8, family: "ipv4" } as const;
const live = { maxAgeMs: 60_000, refreshMs: 1_000 };

const TOKEN: Filled<AcceptedToken> = {
  network: "eip155:84532",
  asset: ADDRESS,
  symbol: "USDC",
  decimals: 6,
  currency: "USD",
  payTo: ADDRESS,
  rate: { kind: "chainlink", rpcUrl: secretUrl(), feed: ADDRESS, ...live },
  markupBps: 200,
  transferMethod: "eip3009",
  eip3009: { name: "USDC", version: "2" },
  rpcUrl: secretUrl(),
  confirmations: 3,
  requireOnchainConfirmation: true,
};

const POLICY: Filled<JobPolicy> = {
  serviceId: 1n,
  jobIndex: 4,
  invocationMode: "restricted_paid",
  restriction: {
    authMode: "payer_is_caller",
    chainRpcUrl: secretUrl(),
    chainContract: ADDRESS,
    permissionCacheSecs: 30,
  },
};

const JOB: Filled<Job> = {
  serviceId: 1n,
  jobIndex: 4,
  name: "summarise",
  title: "Summarise",
  description: "Summarises.",
  tags: ["text"],
  policy: POLICY,
  input: { contentType: "text/plain", schema: "{}", example: "" },
  output: { contentType: "text/plain" },
  requirePaymentIdentifier: true,
  onFailure: "ask",
  charge: ["fixed", "used"],
  minCharge: { basisPoints: 1_050 },
  price: { unit: "usd", amount: 10n ** 16n },
  maxRunSecs: 90,
  forwardHeaders: ["x-own"],
};

const REMOTE: Filled<RemoteFacilitatorConfig> = {
  kind: "remote",
  name: "cdp.example",
  url: secretUrl(),
  headers: { "X-Api-Key": secret() },
  cdp: { keyId: secret(), keySecret: secret() },
  networks: ["eip155:8453"],
};

const ENDPOINT: Filled<WebhookEndpoint> = {
  path: "/hooks/e",
  jobId: 5n,
  name: "Signed",
  auth: { mode: "svix", secrets: [{ name: "new", secret: secret() }], toleranceSecs: 300 },
  dedupe: { by: "header", header: "x-id", windowMs: 60_000 },
  challenge: { parameter: "challenge", method: "GET", verify: { parameter: "token", token: secret() } },
  rateLimitPerSecond: 50,
  allowCidrs: [RANGE],
  forwardHeaders: ["x-event"],
};

export const PRIVATE_KEY = `0x${"5e".repeat(32)}` as const;
export const ACCOUNT = privateKeyToAccount(PRIVATE_KEY).address;
/** The private key of test 1 in RFC 8032, section 7.1. */
export const CALLBACK_KEY = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";

const PUSH: Filled<PushTargetConfig>[] = [
  { url: secretUrl(), jobIds: [3n], concurrency: 4, timeoutMs: 1_500, secrets: [secret(), secret()] },
];

const ENGINE: Filled<PricingEngineConfig> = {
  url: secretUrl("http"),
  bindAddress: tcp(8404),
  proofOfWorkBits: 20,
  signing: { chainId: 1, verifyingContract: ADDRESS, operatorAddress: ADDRESS },
};

const CALLBACKS = {
  endpoints: [
    { url: secretUrl(), events: ["dead_letter"], secrets: [secret()] },
    { url: secretUrl(), events: ["payment.settled"], secrets: [] },
  ],
  keys: [CALLBACK_KEY],
};

const PARTS = new Map<ConfigTable, unknown>([
  [pushTable, PUSH],
  [callbacksTable, CALLBACKS],
  [engineTable, ENGINE],
  [retentionTable, { resultsDays: 30, callsDays: 90, paymentsDays: 0.5, deadLettersDays: 7 }],
  [
    refundsTable,
    { signer: { privateKey: PRIVATE_KEY }, maxFeePerGasWei: 1_500_000_000n, minBalanceWei: 10n ** 16n },
  ],
  [receiptsTable, { signer: { privateKey: PRIVATE_KEY } }],
  [mppTable, { realm: "pay.example", secretKeys: [secret(), secret()], challengeTtlSecs: 120 }],
  [mcpTable, { allowedOrigins: ["https://agent.example"] }],
  [serviceTable, { bindAddress: tcp(8406), tokens: [{ name: "shop", token: secret() }] }],
]);

/** Everything that a configuration can have. Its type demands what is new, too. */
export const FULL: Filled<Config> = {
  serviceId: 18446744073709551615n,
  store: {
    url: `postgres://${secret()}:${secret()}@db.example:5432/jobgate?password=${secret()}`,
    maxPending: 1_000,
    poolSize: 20,
    connectTimeoutMs: 60_000,
    tls: "require",
    ca: secret(),
  },
  runner: {
    bindAddress: { kind: "unix", path: "/run/jobgate/runner.sock" },
    tokens: [secret()],
    leaseMs: 60_000,
    maxAttempts: 10,
    retryBaseMs: 1_500,
    retryMaxMs: 300_000,
    drainMs: 20_000,
    tls: { cert: `/etc/${secret()}`, key: `/etc/${secret()}`, clientCa: `/etc/${secret()}` },
  },
  parts: PARTS,
  operator: { bindAddress: { kind: "tcp", host: "::1", port: 8405 }, tokens: [secret()] },
  x402: {
    bindAddress: tcp(8402),
    publicUrl: publicUrl(),
    facilitators: [
      {
        kind: "remote",
        name: "host.example:444/v3",
        url: secretUrl(),
        headers: { "X-Api-Key": secret() },
      },
      REMOTE,
      {
        kind: "local",
        name: "local",
        signers: [{ privateKey: PRIVATE_KEY }],
        chains: [{ network: "eip155:84532", rpcUrl: secretUrl() }],
        maxFeePerGasWei: 2_500_000_000n,
        minBalanceWei: 10n ** 15n,
      },
    ],
    parts: PARTS,
    paysBack: true,
    jobs: [JOB, { serviceId: 1n, jobIndex: 5 }],
    callbacks: { ports: [443, 8443], allowedAddresses: [RANGE] },
    serviceName: "Shop",
    forwardHeaders: ["x-all"],
    facilitatorTimeoutMs: 30_000,
    quoteTtlSecs: 300,
    maxBodyBytes: 1_048_576,
    corsOrigins: ["https://shop.example"],
    trustedProxies: [RANGE],
    maxUndecided: 100_000,
    maxOpenPerPayer: 256,
    settleMarginSecs: 60,
    defaultInvocationMode: "public_paid",
    acceptedTokens: [
      { ...TOKEN, rate: { kind: "fixed", ratePerNativeUnit: "3200" } },
      TOKEN,
      { ...TOKEN, rate: { kind: "http", url: secretUrl(), pointer: `/${secret()}`, ...live } },
    ],
    jobPolicies: [POLICY],
    priceSource: "map",
    jobPricing: new Map([["18446744073709551615/7", 1_000_000_000_000_000n]]),
    limits: { maxUnpaidPerSecondPerClient: 1_000, maxVerifiesPerClient: 128, maxVerifies: 512 },
  },
  webhooks: {
    bindAddress: tcp(9090),
    trustedProxies: [{ address: "2001:db8::1", prefixBits: 128, family: "ipv6" }],
    maxBodyBytes: 2_048,
    endpoints: [
      { path: "/hooks/a", jobId: 1n, auth: { mode: "none" } },
      {
        path: "/hooks/b",
        jobId: 2n,
        auth: { mode: "bearer", secrets: [{ name: "secret", secret: secret() }] },
      },
      {
        path: "/hooks/c",
        jobId: 3n,
        auth: { mode: "hmac-sha256", secrets: [{ name: "secret", secret: secret() }] },
        name: "Alerts",
      },
      {
        path: "/hooks/d",
        jobId: 4n,
        auth: { mode: "api-key", secrets: [{ name: "secret", secret: secret() }], header: "X-API-Key" },
      },
      ENDPOINT,
    ],
  },
};
