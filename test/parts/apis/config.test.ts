import { expect, test } from "vitest";
import { apisTable } from "../../../src/parts/apis/config.ts";
import { configOf, loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const API = `${X402}${TOKEN}currency = "USD"
rpc_url = "http://127.0.0.1:8545"
[[apis]]
name = "weather"
url = "http://127.0.0.1:8000"
[[jobs]]
route = "GET /weather/{city}"
api = "weather"
price_wei = "1000000000000000"
mode = "public_paid"
job_index = 7`;

testMistakes([
  ...["stream = true", 'cancel = "with_client"'].map((toml) => ({
    promise: `A job without an api has no ${toml}`,
    toml: `${X402}${TOKEN}[[jobs]]\njob_index = 7\nprice_wei = "1"\nmode = "public_paid"\n${toml} #!`,
    keyPath: `jobs[0].${toml.split(" ")[0]}`,
    message: /is set without api/,
  })),
  {
    promise: "The end of a stream with its buyer is a mistake without a stream",
    toml: `${API}\ncancel = "with_client" #!`,
    keyPath: "jobs[0].cancel",
    message: /is set without stream = true/,
  },
  ...["", '\ncharge = "after"', '\ncharge = ["before", "used"]'].map((charge) => ({
    promise: `A stream that is charged after it is a mistake: ${charge.trim() || "by default"}`,
    toml: `${API}${charge}\nstream = true #!`,
    keyPath: "jobs[0].stream",
    message: /expected charge = "before" beside it/,
  })),
  {
    promise: "A stream whose buyers do not wait for it is a mistake",
    toml: `${API}\ncharge = "before"\nanswer = "accepted"\nstream = true #!`,
    keyPath: "jobs[0].stream",
    message: /expected answer = "result" beside it/,
  },
  {
    promise: "A job of another service with the index of an API's job is a mistake",
    toml: `${API} #!\n[[jobs]]\nservice_id = 99\njob_index = 7\nprice_wei = "1000000000000000"\nmode = "public_paid"`,
    keyPath: "jobs[0].job_index",
    message: /is 7, as in jobs\[1\]/,
  },
  {
    promise: "A price of another service with the index of an API's job is a mistake",
    toml: `${API} #!\n[job_pricing.99]\n7 = "1000000000000000"`,
    keyPath: "jobs[0].job_index",
    message: /is 7, as in job_pricing/,
  },
  {
    promise: "A webhook with the index of an API's job is a mistake",
    toml: `${API} #!\n[webhooks]\n[[webhooks.endpoints]]\npath = "/hooks/a"\njob_id = 7`,
    keyPath: "jobs[0].job_index",
    message: /is 7, as in webhooks\.endpoints\[0\]/,
  },
  ...[
    "http://127.0.0.1:8402",
    "http://localhost:8402",
    "http://127.0.0.1:8403",
    "http://127.0.0.1:8405/a",
  ].map((url) => ({
    promise: `An API at a listener of jobgate is a mistake: ${url}`,
    toml: `${X402}${TOKEN}[[apis]]\nname = "weather"\nurl = "${url}" #!`,
    keyPath: "apis[0].url",
    message: /a listener of this jobgate/,
  })),
  ...(
    [
      ["Host", /is a header of the connection/],
      ["Connection", /is a header of the connection/],
      ["Content-Length", /is a header of the connection/],
      ["Transfer-Encoding", /is a header of the connection/],
      ["Expect", /is a header of the connection/],
      ["Accept-Encoding", /is set by jobgate itself/],
      ["Idempotency-Key", /is set by jobgate itself/],
      ["X-JOBGATE-PAYER", /is set by jobgate itself/],
      ["X-Forwarded-For", /is set by jobgate itself/],
      ["X_A", /has a character that servers read in different ways/],
    ] as const
  ).map(([name, message]) => ({
    promise: `An API with a header ${name} is a mistake`,
    toml: `[[apis]]\nname = "weather"\nurl = "http://127.0.0.1:8000"\n[apis.headers]\n${name} = "a" #!`,
    keyPath: `apis[0].headers.${name}`,
    message,
  })),
  {
    promise: "A certificate for an API without https is a mistake",
    toml: `[[apis]]\nname = "weather"\nurl = "http://127.0.0.1:8000"\n[apis.tls] #!`,
    keyPath: "apis[0].tls",
    message: /expected it for an https:\/\/ URL/,
  },
  {
    promise: "A free route that cannot be told apart from one that is sold is a mistake",
    toml: API.replace("[[jobs]]", 'free = ["GET /weather/{place}"] #!\n[[jobs]]'),
    keyPath: "apis[0].free[0]",
    message: /cannot be told apart from jobs\[0\]\.route/,
  },
  {
    promise: "A free route that stands twice is a mistake",
    toml: API.replace("[[jobs]]", 'free = ["GET /a", "GET /a"] #!\n[[jobs]]'),
    keyPath: "apis[0].free[1]",
    message: /cannot be told apart from apis\[0\]\.free\[0\]/,
  },
  {
    promise: "A free route at a path of jobgate itself is a mistake",
    toml: API.replace("[[jobs]]", 'free = ["GET /x402/health"] #!\n[[jobs]]'),
    keyPath: "apis[0].free[0]",
    message: /whose path is one of jobgate itself/,
  },
  {
    promise: "A URL whose credentials are sent in the clear is a mistake",
    toml: API.replace('"http://127.0.0.1:8000"', '"http://user:pass@api.example.com" #!'),
    keyPath: "apis[0].url",
    message: /sends credentials in the clear/,
  },
]);

/** Warnings of a file, by their keys. */
async function warningsOf(toml: string): Promise<string[]> {
  const result = await loadFiles(toml);
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  return result.warnings.map(({ keyPath, message }) => `${keyPath} ${message}`);
}

test("An API may have headers of its own and of a proxy", async () => {
  const headers = 'headers = { Authorization = "Bearer a", X-Api-Key = "b", X-Forwarded-Prefix = "/v1" }';
  expect((await loadFiles(API.replace(':8000"', `:8000"\n${headers}`))).ok).toBe(true);
});

test.each([
  [
    "secrets in the clear",
    API.replace('127.0.0.1:8000"', 'api.example"\nheaders = { X-Key = "hunter2" }'),
    /^apis\[0\]\.headers are sent in the clear/,
  ],
  [
    "a free catch-all",
    API.replace(':8000"', ':8000"\nfree = ["GET /{path...}"]'),
    /^apis\[0\]\.free\[0\] .*is free/,
  ],
  [
    "calls that a crash ends",
    `${API}\n[runner]\nmax_attempts = 1`,
    /^runner\.max_attempts is 1: a call of an API that a crash cuts off/,
  ],
  ["errors that are paid for", `${API}\ncharge = "before"`, /^jobs\[0\]\.charge is "before"/],
  ["calls that are made once", API.replace("GET /w", "POST /w"), /^jobs\[0\]\.charge is "after", and a POST/],
])("check warns of %s", async (_what, toml, warning) => {
  expect(await warningsOf(toml)).toContainEqual(expect.stringMatching(warning));
});

test("check does not warn of an API whose calls may be made again", async () => {
  const own = (toml: string) => warningsOf(toml).then((all) => all.filter((one) => !one.includes("rpc_url")));
  expect(await own(API)).toEqual([]);
  expect(await own(`${API.replace("GET /w", "POST /w")}\nidempotent = false`)).toEqual([]);
});

test("A job of an API may be answered at once", async () => {
  const result = await loadFiles(API.replace('api = "weather"', 'api = "weather"\nanswer = "accepted"'), {
    serviceId: 1n,
  });
  expect(result).toMatchObject({ ok: true });
});

test("A call may last as long as its API's silence and ten seconds, and its request waits an hour at most", async () => {
  const { x402 } = await configOf(API.replace("[[jobs]]", "timeout_secs = 7200\n[[jobs]]"), {
    serviceId: 1n,
  });
  expect(x402?.jobs?.[0]).toMatchObject({ maxRunSecs: 7_210, waitSecs: 3_600 });
});

test.each([
  [5, 15],
  [20, 20],
  [21, 31],
])(
  "A call of an API that may be silent for %i s may last %i s, so that a payment that expires soon pays for it after",
  async (...row) => {
    const [timeout, maxRunSecs] = row;
    const { x402 } = await configOf(API.replace("[[jobs]]", `timeout_secs = ${timeout}\n[[jobs]]`));
    expect(x402?.jobs?.[0]).toMatchObject({ maxRunSecs });
  },
);

test("A header that is set for an API replaces the buyer's, whatever its letter case is", async () => {
  const config = await configOf(API.replace(':8000"', ':8000"\nheaders = { X-Tier = "gold" }'));
  expect(apisTable.in(config)?.[0]?.headers).toEqual({ "x-tier": "gold" });
});
