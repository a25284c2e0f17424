import { ENDPOINT, header, hook, testMistakes } from "../mistake-cases.ts";

testMistakes([
  {
    promise: "A path without a leading slash is a mistake",
    ...hook("hooks"),
    message: /starts with \//,
    suggestion: "/hooks",
  },
  { promise: "A path with a query is a mistake", ...hook("/a?b"), message: /no query/ },
  { promise: "A path with a fragment is a mistake", ...hook("/a#b"), message: /fragment/ },
  { promise: "A path with .. is a mistake", ...hook("/a/../b"), message: /\.\. segment/ },
  { promise: "A path with an empty segment is a mistake", ...hook("/a//b"), message: /empty segment/ },
  {
    promise: "A path with a trailing slash is a mistake",
    ...hook("/a/"),
    message: /empty segment/,
    suggestion: "/a",
  },
  { promise: "A path with percent-encoding is a mistake", ...hook("/a%20b"), message: /percent-encoding/ },
  { promise: "A path that is not ASCII is a mistake", ...hook("/ä"), message: /visible ASCII/ },
  {
    promise: "A path that shadows the health route is a mistake",
    ...hook("/webhooks/health"),
    message: /shadows/,
  },
  {
    promise: "A path that shadows the health route is a mistake, whatever port it gets",
    toml: `[webhooks]\nbind_address = "127.0.0.1:0"\n[[webhooks.endpoints]]\njob_id = 1\npath = "/webhooks/health" #!`,
    keyPath: "webhooks.endpoints[0].path",
    message: /shadows/,
  },
  { promise: "A path under /x402 is a mistake", ...hook("/x402/jobs/1/0"), message: /shadows/ },
  {
    promise: "A path that shadows one of the operator's on the same socket is a mistake",
    toml: `[webhooks]\nbind_address = "127.0.0.1:8405"\n[[webhooks.endpoints]]\njob_id = 1\npath = "/metrics" #!`,
    keyPath: "webhooks.endpoints[0].path",
    message: /shadows/,
  },
  ...["/", "/page", "/page/page.js", "/readyz", "/jobgate.v1.OperatorService/GetInfo"].map((path) => ({
    promise: `A webhook at ${path} on the operator's socket is a mistake`,
    toml: `[webhooks]\nbind_address = "127.0.0.1:8405"\n[[webhooks.endpoints]]\njob_id = 1\npath = "${path}" #!`,
    keyPath: "webhooks.endpoints[0].path",
    message: path === "/" ? /shadows|empty segment/ : /shadows/,
  })),
  ...["/openapi.json", "/llms.txt", "/.well-known/x402", "/mcp", "/mpp/jobs/1/0"].map((path) => ({
    promise: `A webhook at ${path} on the paid gateway's socket is a mistake`,
    toml: `[x402]\nbind_address = "127.0.0.1:8402"\npublic_url = "https://a.example"\nfacilitator_url = "https://f.example"
accepted_tokens = [{ token = "USDC", network = "base", pay_to = "0x${"1".repeat(40)}" }]
[webhooks]\nbind_address = "127.0.0.1:8402"\n[[webhooks.endpoints]]\njob_id = 1\npath = "${path}" #!`,
    keyPath: "webhooks.endpoints[0].path",
    message: /shadows/,
  })),
  {
    promise: "Two endpoints on one path are a mistake",
    toml: `${ENDPOINT}[[webhooks.endpoints]]\njob_id = 2\npath = "/hooks/a" #!`,
    keyPath: "webhooks.endpoints[1].path",
    message: /same as webhooks.endpoints\[0\].path/,
  },
  ...["bearer", "hmac-sha256", "api-key"].map((auth) => ({
    promise: `auth ${auth} needs a secret`,
    toml: `${header(ENDPOINT, "[[webhooks.endpoints]]")}auth = "${auth}"`,
    keyPath: "webhooks.endpoints[0].secret",
    message: /is missing/,
  })),
  {
    promise: "An empty secret is a mistake",
    toml: `${ENDPOINT}auth = "hmac-sha256"\nsecret = "" #!`,
    keyPath: "webhooks.endpoints[0].secret",
    message: /an empty string/,
  },
  {
    promise: "A secret without auth is a mistake",
    toml: `${ENDPOINT}secret = "hunter2" #!`,
    keyPath: "webhooks.endpoints[0].secret",
    message: /auth is "none"/,
  },
  {
    promise: "A bearer secret that cannot be in a header is a mistake",
    toml: `${ENDPOINT}auth = "bearer"\nsecret = "hunter2 \\n" #!`,
    keyPath: "webhooks.endpoints[0].secret",
    message: /cannot be sent in a header/,
  },
  {
    promise: "An unknown auth is a mistake",
    toml: `${ENDPOINT}auth = "hmac" #!`,
    keyPath: "webhooks.endpoints[0].auth",
    message: /"none", "bearer", "hmac-sha256", "api-key", .* or "url-token"/,
    suggestion: "hmac-sha256",
  },
  {
    promise: "An api_key_header that is not a header name is a mistake",
    toml: `${ENDPOINT}api_key_header = "X Key" #!`,
    keyPath: "webhooks.endpoints[0].api_key_header",
    message: /name of an HTTP header/,
  },
]);
