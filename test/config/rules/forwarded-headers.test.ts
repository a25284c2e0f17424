import { expect, test } from "vitest";
import { configOf, TOKEN, X402 } from "../config-folder.ts";
import { ENDPOINT, testMistakes, x402 } from "../mistake-cases.ts";

const list = (...names: readonly string[]) => JSON.stringify(names);
const endpoint = (headers: string, auth = "") =>
  `service_id = 1\n${ENDPOINT}${auth}forward_headers = ${headers} #!\n`;
const key = "webhooks.endpoints[0].forward_headers";

test("Headers are read in lower case, for an endpoint, for a job, and for jobs without a list of their own", async () => {
  const { webhooks, x402 } = await configOf(
    `service_id = 1\n${X402}forward_headers = ["X-Request-Id"]\n${TOKEN}
[[jobs]]
job_index = 0
forward_headers = []
[job_pricing.1]
0 = "1000000000000000"
${endpoint(list("X-Shopify-Shop-Domain", "User-Agent"))}`.replace("service_id = 1\n[[", "[["),
  );
  expect(webhooks?.endpoints[0]?.forwardHeaders).toEqual(["x-shopify-shop-domain", "user-agent"]);
  expect(x402?.forwardHeaders).toEqual(["x-request-id"]);
  expect(x402?.jobs?.[0]?.forwardHeaders).toEqual([]);
});

testMistakes([
  ...[
    "Authorization",
    "COOKIE",
    "Proxy",
    "Proxy-Authorization",
    "X-API-Key",
    "X-Auth-Token",
    "Sign-In-With-X",
  ].map((name) => ({
    promise: `Forwarding ${name} is a mistake`,
    toml: endpoint(list(name)),
    keyPath: `${key}[0]`,
    message: /carries credentials, which would be stored and shown with each job; expected another header/,
  })),
  ...["PAYMENT-SIGNATURE", "Payment-Response", "X-PAYMENT", "x-payment-response"].map((name) => ({
    promise: `Forwarding ${name} is a mistake`,
    ...x402("forward_headers", list("X-A", name)),
    keyPath: "x402.forward_headers[1]",
    message: /carries a payment/,
  })),
  ...["X-CHAIN-CALLER", "X-Chain-Caller-Sig", "X-TANGLE-CALLER-NONCE"].map((name) => ({
    promise: `Forwarding ${name} is a mistake`,
    toml: `service_id = 1\n${X402}${TOKEN}[[jobs]]\njob_index = 0\nforward_headers = ${list(name)} #!\n`,
    keyPath: "jobs[0].forward_headers[0]",
    message: /proves who the caller is; the runner gets the caller .* as X-CHAIN-CALLER/,
  })),
  {
    promise: "Forwarding the header that an endpoint finds its key in is a mistake",
    toml: endpoint(
      list("x-gitlab-token"),
      'auth = "api-key"\nsecret = "s"\napi_key_header = "X-Gitlab-Token"\n',
    ),
    keyPath: `${key}[0]`,
    message: /proves to this endpoint who sends/,
  },
  ...["X-Signature-256", "X-Hub-Signature-256", "X-Webhook-Signature"].map((name) => ({
    promise: `Forwarding ${name} is a mistake where the endpoint checks it`,
    toml: endpoint(list(name), 'auth = "hmac-sha256"\nsecret = "s"\n'),
    keyPath: `${key}[0]`,
    message: /proves to this endpoint who sends/,
  })),
  {
    promise: "A header that is listed twice, in another letter case or with underscores, is a mistake",
    toml: endpoint(list("X-Request-Id", "x_request_id")),
    keyPath: `${key}[1]`,
    message: /is listed twice/,
  },
  {
    promise: "More than 32 headers are a mistake",
    toml: endpoint(list(...Array.from({ length: 33 }, (_, i) => `X-${i}`))),
    keyPath: key,
    message: /has 33 headers; expected at most 32/,
  },
  {
    promise: "A name that no header can have is a mistake",
    toml: endpoint(list("X Request")),
    keyPath: `${key}[0]`,
    message: /expected the name of an HTTP header/,
  },
  {
    promise: "A text instead of a list is a mistake",
    toml: endpoint('"X-Request-Id"'),
    keyPath: key,
    message: /expected an array of header names/,
  },
]);

test("A signature that the endpoint does not check can go to a runner that does", async () => {
  const { webhooks } = await configOf(endpoint(list("X-Dropbox-Signature", "Stripe-Signature")));
  expect(webhooks?.endpoints[0]?.forwardHeaders).toHaveLength(2);
});
