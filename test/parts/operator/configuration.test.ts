import { expect, test } from "vitest";
import { toConfiguration } from "../../../src/parts/operator/configuration.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { ACCOUNT, ADDRESS, CALLBACK_KEY, FULL, PRIVATE_KEY, SECRET } from "./full-configuration.ts";
import { callJson, startOperator } from "./harness.ts";

const jobgate = startBeforeAll(() => startOperator({ configuration: FULL }));

test("GetConfiguration shows the settings in use", async () => {
  const { answer } = await callJson(jobgate.url, "GetConfiguration");
  expect(answer.configuration).toMatchObject({
    service_id: "18446744073709551615",
    store: {
      url: "postgres://db.example:5432/jobgate",
      max_pending: "1000",
      retention: { results: "2592000s", calls: "7776000s", payments: "43200s", dead_letters: "604800s" },
      pool_size: 20,
      tls: "require",
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
        { name: "host.example:444/v3", auth: "headers", networks: [], signers: 0 },
        {
          name: "cdp.example",
          auth: "cdp",
          networks: ["eip155:8453"],
          max_fee_per_gas_gwei: "",
          min_balance: "",
        },
        {
          name: "local",
          auth: "",
          networks: ["eip155:84532"],
          signers: 1,
          max_fee_per_gas_gwei: "2.5",
          min_balance: "0.001",
          accounts: [ACCOUNT],
          rpc_urls: ["https://host.example:444"],
        },
      ],
      facilitator_service: "127.0.0.1:8406",
      facilitator_service_sellers: ["shop"],
      receipts_signer: ACCOUNT,
      callbacks: { ports: [443, 8443], allowed_addresses: ["10.0.0.0/8"] },
      service_name: "Shop",
      forward_headers: ["x-all"],
      jobs: [
        {
          service_id: "1",
          job_index: 4,
          name: "summarise",
          charge: ["fixed", "used"],
          min_charge: "10.5%",
          require_payment_identifier: true,
          forward_headers: ["x-own"],
          max_run: "90s",
        },
        { job_index: 5, charge: ["fixed"], min_charge: "", require_payment_identifier: false },
      ],
      mpp: { realm: "pay.example", challenge_ttl: "120s" },
      mcp: { allowed_origins: ["https://agent.example"] },
      refunds: {
        max_fee_per_gas_gwei: "1.5",
        min_balance: "0.01",
        account: ACCOUNT,
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
          currency: "USD",
          eip3009_name: "USDC",
          eip3009_version: "2",
          rate_source: "fixed",
          rate_per_native_unit: "3200",
          rate_url: "",
          rpc_url: "https://host.example:444",
        },
        {
          rate_source: "chainlink",
          rate_url: "https://host.example:444",
          rate_feed: ADDRESS,
          rate_max_age: "60s",
          rate_refresh: "1s",
          confirmations: 3,
        },
        { rate_source: "http", rate_url: "https://host.example:444", require_onchain_confirmation: true },
      ],
      job_policies: [
        {
          service_id: "1",
          job_index: 4,
          auth_mode: "payer_is_caller",
          chain_rpc_url: "https://host.example:444",
          permission_cache: "30s",
        },
      ],
      job_prices: [
        { job_index: 4, price: "$0.01", price_wei: "" },
        { service_id: "18446744073709551615", job_index: 7, price_wei: "1000000000000000" },
      ],
    },
    webhooks: {
      trusted_proxies: ["2001:db8::1/128"],
      endpoints: [
        { path: "/hooks/a", job_id: "1", auth: "none", name: "" },
        { auth: "bearer" },
        { auth: "hmac-sha256", name: "Alerts" },
        { auth: "api-key", api_key_header: "X-API-Key" },
        {
          auth: "svix",
          secrets: ["new"],
          tolerance: "300s",
          dedupe: "x-id",
          dedupe_window: "60s",
          challenge: "GET challenge",
          rate_limit_per_second: 50,
          allow_cidrs: ["10.0.0.0/8"],
          forward_headers: ["x-event"],
        },
      ],
    },
    pricing_engine: {
      url: "http://host.example:444",
      checks_quotes: true,
      chain_id: "1",
      verifying_contract: ADDRESS,
      operator_address: ADDRESS,
    },
  });
});

/** Settings that GetConfiguration leaves out, by the reason. */
const LEFT_OUT: Record<string, readonly string[]> = {
  secret: [
    "webhooks.endpoints.auth.secrets.secret",
    "webhooks.endpoints.challenge.verify",
    "x402.acceptedTokens.rate.pointer",
    "x402.facilitators.cdp.keyId",
    "x402.facilitators.cdp.keySecret",
    "x402.facilitators.headers.X-Api-Key",
  ],
  "the contents of files": ["runner.tls.cert", "runner.tls.key", "store.ca"],
  "over once jobgate runs": ["store.connectTimeoutMs"],
  "in the list of jobs for sale": ["description", "input", "output", "tags", "title"].map(
    (key) => `x402.jobs.${key}`,
  ),
  "among the policies": ["x402.jobs.policy"],
  "seen as tables": ["x402.parts"],
  "seen in the table of refunds": ["x402.paysBack"],
  "seen in the address": [
    "webhooks.endpoints.allowCidrs.family",
    "webhooks.trustedProxies.family",
    "x402.callbacks.allowedAddresses.family",
    "x402.trustedProxies.family",
  ],
};

test("GetConfiguration shows every setting but those that are left out on purpose", () => {
  expect(unread(FULL, toConfiguration)).toEqual(Object.values(LEFT_OUT).flat().sort());
});

/** Returns the paths of the values that `read` does not look at. The entries of a list have one path. */
function unread<Value extends object>(value: Value, read: (value: Value) => void): string[] {
  const [seen, unseen] = [new Set<string>(), new Set<string>()];
  const watched = (watchedValue: unknown, path: string): unknown => {
    if (typeof watchedValue !== "object" || watchedValue === null || watchedValue instanceof Map)
      return watchedValue;
    const pathOf = (key: string) =>
      Array.isArray(watchedValue) ? path : `${path}.${key}`.replace(/^\./, "");
    for (const key of Object.keys(watchedValue)) unseen.add(pathOf(key));
    return new Proxy(watchedValue, {
      get(target, key) {
        const found: unknown = Reflect.get(target, key);
        if (typeof key === "symbol" || !Object.hasOwn(target, key)) return found;
        seen.add(pathOf(key));
        return watched(found, pathOf(key));
      },
    });
  };
  read(watched(value, "") as Value);
  return [...unseen].filter((path) => !seen.has(path)).sort();
}

test("No answer of the API holds a secret of the configuration", async () => {
  const inText = (_: string, value: unknown) =>
    typeof value === "bigint" || value instanceof Map ? undefined : value;
  expect(JSON.stringify(FULL, inText).split(SECRET).length).toBeGreaterThan(40);
  for (const method of ["GetConfiguration", "GetInfo", "ListRates", "ListRunners"]) {
    const { status, answer } = await callJson(jobgate.url, method);
    expect(status).toBe(200);
    for (const secret of [SECRET, CALLBACK_KEY, PRIVATE_KEY, PRIVATE_KEY.slice(2)])
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
