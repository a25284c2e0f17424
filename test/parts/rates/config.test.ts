import { expect, test } from "vitest";
import { loadFiles, mistakesOf, TOKEN, X402 } from "../../config/config-folder.ts";
import { testMistakes, without } from "../../config/mistake-cases.ts";

const LIVE = without(TOKEN, "rate_per_native_unit");
const FEED = "0x71041dddad3595F9CEd3DcCFBe3D1F4b0a16Bb70";
const CHAINLINK = `{ rpc_url = "http://127.0.0.1:8545", feed = "${FEED}", max_age_secs = 3600 }`;
const HTTP = '{ url = "https://rates.example.com/?key=hunter2", pointer = "/a/0/b~1c", max_age_secs = 10 }';

const path = "x402.accepted_tokens[0].rate_source";
const source = (kind: string, table: string) => `${X402}${LIVE}rate_source.${kind} = ${table} #!`;
const chainlink = (from: string | RegExp, to: string) => source("chainlink", CHAINLINK.replace(from, to));
const http = (from: string | RegExp, to: string) => source("http", HTTP.replace(from, to));

async function rateOf(toml: string) {
  const result = await loadFiles(toml);
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  return result.config.x402?.acceptedTokens[0]?.rate;
}

test("A Chainlink feed is refreshed every 5 seconds by default", async () => {
  expect(await rateOf(chainlink("", ""))).toEqual({
    kind: "chainlink",
    rpcUrl: "http://127.0.0.1:8545/",
    feed: FEED,
    maxAgeMs: 3_600_000,
    refreshMs: 5_000,
  });
  expect(await rateOf(chainlink(" }", ", refresh_secs = 0.25 }"))).toMatchObject({ refreshMs: 250 });
});

test("A URL with a short max_age_secs is refreshed four times in it; its pointer can have escapes", async () => {
  expect(await rateOf(http("", ""))).toEqual({
    kind: "http",
    url: "https://rates.example.com/?key=hunter2",
    pointer: "/a/0/b~1c",
    maxAgeMs: 10_000,
    refreshMs: 2_500,
  });
});

test("A URL on loopback can use http; an empty pointer is the whole answer", async () => {
  const rate = await rateOf(http("https://rates.example.com", "http://127.0.0.1:1").replace("/a/0/b~1c", ""));
  expect(rate).toMatchObject({ url: "http://127.0.0.1:1/?key=hunter2", pointer: "" });
});

test("A token with a live rate ignores the rate of the table, and its amounts are not checked", async () => {
  const rates = `${X402}default_invocation_mode = "public_paid"\nrate_per_native_unit = "0.000000001"\n`;
  const toml = `${rates}${LIVE}rate_source.http = ${HTTP}\n[job_pricing.1]\n0 = "1"\n1 = "${10n ** 60n}"`;
  expect(await rateOf(toml)).toMatchObject({ kind: "http" });
});

test.each(["rate_source = 1", 'rate_source.chainlink = ""', "rate_source.http = 7"])(
  "A rate_source of the wrong shape is reported once: %s",
  async (wrong) => {
    const found = await mistakesOf(`${X402}${LIVE}${wrong}`);
    expect(found.map(({ message }) => message)).toEqual([expect.stringMatching(/expected a table$/)]);
  },
);

testMistakes([
  {
    promise: "A token without any rate is a mistake",
    toml: `${X402}${LIVE}`.replace("[[x402.accepted_tokens]]", "[[x402.accepted_tokens]] #!"),
    keyPath: "x402.accepted_tokens[0].rate_per_native_unit",
    message: /or a rate_source/,
  },
  {
    promise: "A fixed rate beside a live one is a mistake",
    toml: `${X402}${LIVE}rate_source.http = ${HTTP}\nrate_per_native_unit = "1" #!`,
    keyPath: "x402.accepted_tokens[0].rate_per_native_unit",
    message: /set beside rate_source; expected only one/,
  },
  {
    promise: "Two rate sources for one token are a mistake",
    toml: `${X402}${LIVE}rate_source = { chainlink = ${CHAINLINK}, http = ${HTTP} } #!`,
    keyPath: path,
    message: /both chainlink and http; expected only one/,
  },
  {
    promise: "An empty rate_source is a mistake",
    toml: `${X402}${LIVE}rate_source = {} #!`,
    keyPath: path,
    message: /no source; expected chainlink or http/,
  },
  {
    promise: "An unknown rate source is a mistake",
    toml: `${X402}${LIVE}rate_source.chainlnk = ${CHAINLINK} #!`,
    keyPath: `${path}.chainlnk`,
    message: /not a known key/,
    suggestion: "chainlink",
  },
  {
    promise: "A feed without an address is a mistake",
    toml: chainlink(FEED, "0x1234"),
    keyPath: `${path}.chainlink.feed`,
    message: /an address/,
  },
  {
    promise: "A feed without max_age_secs is a mistake",
    toml: chainlink(", max_age_secs = 3600", ""),
    keyPath: `${path}.chainlink.max_age_secs`,
    message: /is missing; expected an integer from 1 to 31536000/,
  },
  {
    promise: "An age of 0 is a mistake",
    toml: chainlink("3600", "0"),
    keyPath: `${path}.chainlink.max_age_secs`,
    message: /is 0; expected an integer from 1/,
  },
  {
    promise: "An age above a year is a mistake",
    toml: http("max_age_secs = 10", "max_age_secs = 31_536_001"),
    keyPath: `${path}.http.max_age_secs`,
    message: /31536000/,
  },
  {
    promise: "An RPC with credentials in the clear is a mistake",
    toml: chainlink("127.0.0.1:8545", "rpc.example.com/?api_key=hunter2"),
    keyPath: `${path}.chainlink.rpc_url`,
    message: /credentials in the clear/,
  },
  {
    promise: "A refresh_secs that is not below max_age_secs is a mistake",
    toml: chainlink(" }", ", refresh_secs = 3600 }"),
    keyPath: `${path}.chainlink.refresh_secs`,
    message: /less than max_age_secs, which is 3600/,
  },
  {
    promise: "A refresh_secs of 0 is a mistake",
    toml: http(" }", ", refresh_secs = 0 }"),
    keyPath: `${path}.http.refresh_secs`,
    message: /a number of seconds from 0.001/,
  },
  {
    promise:
      "A rate over http beyond loopback is a mistake, because a man in the middle could set the prices",
    toml: http("https:", "http:"),
    keyPath: `${path}.http.url`,
    message: /uses http; expected https/,
  },
  {
    promise: "A pointer that does not start with a slash is a mistake",
    toml: http("/a/0/b~1c", "rate"),
    keyPath: `${path}.http.pointer`,
    message: /JSON pointer \(RFC 6901\)/,
  },
  {
    promise: "A pointer with an invalid escape is a mistake",
    toml: http("~1", "~2"),
    keyPath: `${path}.http.pointer`,
    message: /JSON pointer \(RFC 6901\)/,
  },
]);
