import { expect, test } from "vitest";
import { loadFiles } from "../config-folder.ts";
import { ENDPOINT, testMistakes } from "../mistake-cases.ts";

const AT = "webhooks.endpoints[0]";
const GITHUB = `${ENDPOINT}auth = "github"\nsecret = "0123456789abcdef"\n`;
const endpoint = (line: string, key: string, base = GITHUB) => ({
  toml: `${base}${line} #!`,
  keyPath: `${AT}.${key}`,
});

testMistakes([
  {
    promise: "A tolerance for an auth without time of signing is a mistake",
    ...endpoint("tolerance_secs = 60", "tolerance_secs"),
    message: /never used, since requests with auth "github"/,
  },
  {
    promise: "A tolerance of 0 is a mistake",
    ...endpoint(
      "tolerance_secs = 0",
      "tolerance_secs",
      `${ENDPOINT}auth = "slack"\nsecret = "0123456789abcdef"\n`,
    ),
    message: /an integer from 1 to 86400/,
  },
  {
    promise: "dedupe without a header is a mistake for an auth without delivery ids",
    ...endpoint("dedupe = { window_secs = 60 }", "dedupe.header", ENDPOINT),
    message: /is missing; expected the header .* since auth "none"/,
  },
  {
    promise: "dedupe = true is a mistake",
    ...endpoint("dedupe = true", "dedupe"),
    message: /expected a table such as .*, or false/,
  },
  {
    promise: "A dedupe header that is not a header name is a mistake",
    ...endpoint('dedupe = { header = "X Id" }', "dedupe.header"),
    message: /name of an HTTP header/,
  },
  {
    promise: "A window of 0 is a mistake",
    ...endpoint("dedupe = { window_secs = 0 }", "dedupe.window_secs"),
    message: /an integer from 1 to 31536000/,
  },
  {
    promise: "An unknown key of dedupe is a mistake",
    ...endpoint('dedupe = { headr = "X-Id" }', "dedupe.headr"),
    message: /did you mean header\?/,
    suggestion: "header",
  },
  ...[
    { auth: "bearer", more: "", name: "Authorization" },
    { auth: "api-key", more: "", name: "x-api-key" },
    { auth: "api-key", more: 'api_key_header = "X-Mine"\n', name: "X-Mine" },
  ].map(({ auth, more, name }) => ({
    promise: `${name} as dedupe header is a mistake, because it holds the secret of auth "${auth}"`,
    ...endpoint(
      `dedupe = { header = "${name}" }`,
      "dedupe.header",
      `${ENDPOINT}auth = "${auth}"\nsecret = "0123456789abcdef"\n${more}`,
    ),
    message: /the same in each delivery; expected the header with the delivery's id/,
  })),
  {
    promise: "A challenge without its parameter is a mistake",
    ...endpoint('challenge = { method = "GET" }', "challenge.parameter"),
    message: /is missing/,
  },
  {
    promise: "A challenge with an unknown method is a mistake",
    ...endpoint('challenge = { parameter = "a", method = "PUT" }', "challenge.method"),
    message: /"GET" or "POST"/,
  },
  {
    promise: "A token parameter without its token is a mistake",
    ...endpoint('challenge = { parameter = "a", token_parameter = "b" }', "challenge.token"),
    message: /the value that token_parameter must have/,
  },
  {
    promise: "A challenge that sends its token back is a mistake",
    ...endpoint(
      'challenge = { parameter = "a", token_parameter = "a", token = "hunter2" }',
      "challenge.token_parameter",
    ),
    message: /expected another one/,
  },
  {
    promise: "A rate limit of 0 is a mistake",
    ...endpoint("rate_limit_per_second = 0", "rate_limit_per_second"),
    message: /an integer from 1 to 1000000/,
  },
  {
    promise: "An empty list of ranges is a mistake",
    ...endpoint("allow_cidrs = []", "allow_cidrs"),
    message: /is empty; expected an array of at least one address range/,
  },
  ...[
    "10.0.0.0/33",
    "10.0.0/8",
    "::/129",
    "example.com",
    "10.0.0.1/08",
    "::ffff:10.0.0.0/104",
    "10.0.0.0/",
  ].map((range) => ({
    promise: `${range} is not a range`,
    ...endpoint(`allow_cidrs = ["${range}"]`, "allow_cidrs[0]"),
    message: /expected an IPv4 or IPv6 address or range/,
  })),
  {
    promise: "A trusted proxy that is not an address is a mistake",
    toml: '[webhooks]\ntrusted_proxies = ["proxy"] #!',
    keyPath: "webhooks.trusted_proxies[0]",
    message: /expected an IPv4 or IPv6 address or range/,
  },
]);

test.each([
  ["dedupe = { window_secs = 599 }", "dedupe.window_secs"],
  ["dedupe = { window_secs = 600 }", undefined],
  ["tolerance_secs = 43_201", "tolerance_secs"],
  ["tolerance_secs = 43_200", undefined],
  ["tolerance_secs = 43_201\ndedupe = false", undefined],
])("%s: a warning when the window is shorter than a captured request stays valid", async (line, key) => {
  const loaded = await loadFiles(
    `service_id = 1\n${ENDPOINT}auth = "slack"\nsecret = "0123456789abcdef"\n${line}`,
  );
  const warned = loaded.ok && loaded.warnings.map(({ keyPath }) => keyPath);
  expect(warned).toEqual(key === undefined ? [] : [`${AT}.${key}`]);
});

test("A window can be of any length for an auth without time of signing", async () => {
  const loaded = await loadFiles(`service_id = 1\n${GITHUB}dedupe = { window_secs = 1 }`);
  expect(loaded.ok && loaded.warnings).toEqual([]);
});
