import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import type { Config } from "../../src/config/config.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { callJson, startOperator } from "./harness.ts";

const ADDRESS = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const tcp = (port: number) => ({ kind: "tcp", host: "127.0.0.1", port }) as const;

/** Prefix of every generated secret. */
const SECRET = "sEcReT";
let count = 0;
const secret = (): string => `${SECRET}${++count}`;
/** A URL with a secret in every part that can hold one. */
const secretUrl = (scheme = "https"): string =>
  `${scheme}://${secret()}:${secret()}@host.example:444/v3/${secret()}?apikey=${secret()}#${secret()}`;
/** The public URL; its path is not secret. */
const publicUrl = (): string =>
  `https://${secret()}:${secret()}@host.example/jobgate?key=${secret()}#${secret()}`;

const token = {
  network: "eip155:84532",
  asset: ADDRESS,
  symbol: "USDC",
  decimals: 6,
  payTo: ADDRESS,
  markupBps: 200,
  transferMethod: "eip3009",
  eip3009: { name: "USDC", version: "2" },
  rpcUrl: secretUrl(),
  confirmations: 3,
  requireOnchainConfirmation: true,
} as const;
const live = { maxAgeMs: 60_000, refreshMs: 1_000 };

const RECEIPTS_KEY = `0x${"5e".repeat(32)}` as const;
/** The private key of test 1 in RFC 8032, section 7.1. */
const CALLBACK_KEY = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";

const FULL: Config = {
  serviceId: 18446744073709551615n,
  store: {
    url: `postgres://${secret()}:${secret()}@db.example:5432/jobgate?password=${secret()}`,
    maxPending: 1_000,
    retention: { resultsDays: 30, callsDays: 90, paymentsDays: 0.5 },
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
  push: [{ url: secretUrl(), jobIds: [3n], concurrency: 4, timeoutMs: 1_500, secrets: [secret(), secret()] }],
  callbacks: [
    { url: secretUrl(), events: ["dead_letter"], secrets: [secret()] },
    { url: secretUrl(), events: ["payment.settled"], secrets: [] },
  ],
  callbackKeys: [CALLBACK_KEY],
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
        networks: ["eip155:8453"],
      },
      {
        kind: "remote",
        name: "cdp.example",
        url: secretUrl(),
        cdp: { keyId: secret(), keySecret: secret() },
      },
      {
        kind: "local",
        name: "local",
        signers: [{ privateKey: `0x${secret()}` }],
        chains: [{ network: "eip155:84532", rpcUrl: secretUrl() }],
        maxFeePerGasWei: 2_500_000_000n,
        minBalanceWei: 10n ** 15n,
      },
    ],
    refunds: {
      signer: { privateKey: `0x${secret()}` },
      maxFeePerGasWei: 1_500_000_000n,
      minBalanceWei: 10n ** 16n,
    },
    receipts: { signer: { privateKey: RECEIPTS_KEY } },
    mpp: { realm: "pay.example", secretKeys: [secret(), secret()], challengeTtlSecs: 120 },
    mcp: { allowedOrigins: ["https://agent.example"] },
    jobs: [{ serviceId: 1n, jobIndex: 4, onFailure: "ask" }],
    facilitatorService: { bindAddress: tcp(8406), tokens: [{ name: "shop", token: secret() }] },
    facilitatorTimeoutMs: 30_000,
    quoteTtlSecs: 300,
    maxBodyBytes: 1_048_576,
    corsOrigins: ["https://shop.example"],
    trustedProxies: [{ address: "10.0.0.0", prefixBits: 8, family: "ipv4" }],
    maxUndecided: 100_000,
    maxOpenPerPayer: 256,
    settleMarginSecs: 60,
    defaultInvocationMode: "public_paid",
    acceptedTokens: [
      { ...token, rate: { kind: "fixed", ratePerNativeUnit: "3200" } },
      { ...token, rate: { kind: "chainlink", rpcUrl: secretUrl(), feed: ADDRESS, ...live } },
      { ...token, rate: { kind: "http", url: secretUrl(), pointer: `/${secret()}`, ...live } },
    ],
    jobPolicies: [
      {
        serviceId: 1n,
        jobIndex: 4,
        invocationMode: "restricted_paid",
        restriction: {
          authMode: "payer_is_caller",
          chainRpcUrl: secretUrl(),
          chainContract: ADDRESS,
          permissionCacheSecs: 0,
        },
      },
    ],
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
        auth: { mode: "api-key", secrets: [{ name: "secret", secret: secret() }], header: "x-api-key" },
      },
    ],
  },
  pricingEngine: {
    url: secretUrl("http"),
    bindAddress: tcp(8404),
    proofOfWorkBits: 20,
    signing: { chainId: 1, verifyingContract: ADDRESS, operatorAddress: ADDRESS },
  },
};

const jobgate = startBeforeAll(() => startOperator({ configuration: FULL }));

test("GetConfiguration shows the settings in use", async () => {
  const { answer } = await callJson(jobgate.url, "GetConfiguration");
  expect(answer.configuration).toMatchObject({
    service_id: "18446744073709551615",
    store: {
      url: "postgres://db.example:5432/jobgate",
      max_pending: "1000",
      retention: { results: "2592000s", calls: "7776000s", payments: "43200s" },
    },
    runner: {
      bind_address: "unix:/run/jobgate/runner.sock",
      has_token: true,
      has_tls: true,
      has_client_ca: true,
      lease: "60s",
      max_attempts: 10,
      retry_base: "1.500s",
      retry_max: "300s",
      drain: "20s",
    },
    push: [
      {
        url: "https://host.example:444",
        job_ids: ["3"],
        concurrency: 4,
        timeout: "1.500s",
        is_signed: true,
      },
    ],
    callbacks: [
      { url: "https://host.example:444", events: ["dead_letter"], has_secret: true },
      { events: ["payment.settled"], has_secret: false },
    ],
    callback_keys: ["whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
    operator: { bind_address: "[::1]:8405", has_token: true },
    x402: {
      bind_address: "127.0.0.1:8402",
      public_url: "https://host.example/jobgate",
      facilitator_url: "https://host.example:444",
      facilitators: [
        { name: "host.example:444/v3", auth: "headers", networks: ["eip155:8453"], signers: 0 },
        { name: "cdp.example", auth: "cdp", networks: [], max_fee_per_gas_gwei: "", min_balance: "" },
        {
          name: "local",
          auth: "",
          networks: ["eip155:84532"],
          signers: 1,
          max_fee_per_gas_gwei: "2.5",
          min_balance: "0.001",
        },
      ],
      facilitator_service: "127.0.0.1:8406",
      receipts_signer: privateKeyToAccount(RECEIPTS_KEY).address,
      mpp: { realm: "pay.example", challenge_ttl: "120s" },
      mcp: { allowed_origins: ["https://agent.example"] },
      refunds: {
        max_fee_per_gas_gwei: "1.5",
        min_balance: "0.01",
        promises: [{ service_id: "1", job_index: 4, on_failure: "ask" }],
      },
      quote_ttl: "300s",
      max_undecided: 100_000,
      max_open_per_payer: 256,
      settle_margin: "60s",
      cors_origins: ["https://shop.example"],
      trusted_proxies: ["10.0.0.0/8"],
      accepted_tokens: [
        {
          symbol: "USDC",
          decimals: 6,
          rate_source: "fixed",
          rate_url: "",
          rpc_url: "https://host.example:444",
        },
        { rate_source: "chainlink", rate_url: "https://host.example:444", confirmations: 3 },
        { rate_source: "http", rate_url: "https://host.example:444", require_onchain_confirmation: true },
      ],
      job_policies: [
        {
          service_id: "1",
          job_index: 4,
          auth_mode: "payer_is_caller",
          chain_rpc_url: "https://host.example:444",
        },
      ],
      job_prices: [{ service_id: "18446744073709551615", job_index: 7, price_wei: "1000000000000000" }],
    },
    webhooks: {
      trusted_proxies: ["2001:db8::1/128"],
      endpoints: [
        { path: "/hooks/a", job_id: "1", auth: "none", name: "" },
        { auth: "bearer" },
        { auth: "hmac-sha256", name: "Alerts" },
        { auth: "api-key" },
      ],
    },
    pricing_engine: { url: "http://host.example:444", checks_quotes: true },
  });
});

test("No answer of the API holds a secret of the configuration", async () => {
  expect(count).toBeGreaterThan(40);
  for (const method of ["GetConfiguration", "GetInfo", "ListRates", "ListRunners"]) {
    const { status, answer } = await callJson(jobgate.url, method);
    expect(status).toBe(200);
    for (const secret of [SECRET, CALLBACK_KEY, RECEIPTS_KEY, RECEIPTS_KEY.slice(2)])
      expect(JSON.stringify(answer)).not.toContain(secret);
  }
});

test("GetConfiguration leaves out gateways that are not configured", async () => {
  const plain = await startOperator();
  const { answer } = await callJson(plain.url, "GetConfiguration");
  await plain.stop();
  const shown = answer.configuration as Record<string, unknown>;
  expect(Object.keys(shown).sort()).toEqual([
    "callback_keys",
    "callbacks",
    "operator",
    "push",
    "runner",
    "service_id",
    "store",
  ]);
  expect(shown.operator).toEqual({ bind_address: "127.0.0.1:0", has_token: false });
});
