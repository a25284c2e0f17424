import { describe, expect, test } from "vitest";
import * as z from "zod";
import { dollarsOrSource } from "../../src/config/price-sources.ts";
import { storeUrl } from "../../src/config/store-url.ts";
import * as values from "../../src/config/value-types.ts";
import * as web from "../../src/config/web-types.ts";
import { describeWrong } from "../../src/config/wrong-value.ts";

const PRIVATE_KEY = `0x${"4c0883a69102937d6231471b5dbb6204".repeat(2)}`;
const messageOf = (schema: z.ZodType, value: unknown, origin?: string) => {
  const { found, hint } = describeWrong(schema, value, origin);
  return `${found}; ${hint}`;
};

describe("A mistake says which value is wrong, what is wrong with it, and what was expected:", () => {
  test.each<[kind: string, schema: z.ZodType, value: unknown, message: RegExp]>([
    ["an address", values.address(), "0x1234", /^is "0x1234", which has 4 hex digits; expected an address/],
    ["an address", values.address(), "0x12gg", /"0x12gg", which has a character that is not a hex digit/],
    ["an address", values.address(), "a".repeat(40), /does not begin with 0x; .*; did you mean "0xaaaa/],
    [
      "an address",
      values.address(),
      "0x036CBD53842c5426634e7929541eC2318f3dCF7e",
      /^is "0x036C.*, which has a wrong checksum.*; expected the address exactly/,
    ],
    [
      "an address",
      values.address(),
      `0x${"0".repeat(40)}`,
      /"0x0+", which is the zero address; expected an address that/,
    ],
    [
      "a network",
      values.network(),
      "base-sepola",
      /^is "base-sepola"; expected a CAIP-2.*; did you mean "base-sepolia"\?$/,
    ],
    ["a network", values.network(), 8453n, /^is 8453; .*; did you mean "eip155:8453"\?$/],
    ["a mode", values.oneOf(["disabled", "public_paid"]), "public", /; did you mean "public_paid"\?$/],
    ["seconds", values.seconds(0), "10s", /^is "10s"; .*; did you mean 10 without quotes\?$/],
    ["seconds", values.seconds(0), "500ms", /; did you mean 0.5 without quotes\?$/],
    ["seconds", values.seconds(0), "5m", /; did you mean 300 without quotes\?$/],
    [
      "an address to bind",
      web.bindAddress(),
      "127.0.0.1:99999",
      /which has a port above 65535; expected "host/,
    ],
    ["a URL", web.httpUrl(), "node.example:8545", /; did you mean "https:\/\/node.example:8545"\?$/],
    [
      "a URL that may be a key",
      web.httpUrl(),
      "rpc-SECRET",
      /^is "…", which does not begin with [^;]*; expected an [^;]* URL$/,
    ],
    ["a store in memory", storeUrl(), "sqlite::memory:", /^is "sqlite::memory:"; expected "sqlite:PATH"/],
    ["a URL", web.baseUrl(), "localhost:4021", /; did you mean "http:\/\/localhost:4021"\?$/],
    ["a URL", web.httpUrl(), "node.example/v3/0123", /expected an absolute http:\/\/ or https:\/\/ URL$/],
    [
      "a URL",
      web.httpUrl(),
      "wss://node.example",
      /^is "wss:\/\/node.example", which does not begin with http/,
    ],
    ["a URL", web.httpUrl(), "https://node .example", /^is "https:\/\/node\/…", which has a space/],
    [
      "a URL",
      web.baseUrl(),
      "https://shop.example/a?b=c",
      /^is "https:\/\/shop.example\/…", which has a query or fragment/,
    ],
    [
      "a URL",
      web.httpUrl(),
      "https://node.example:99999",
      /"https:\/\/node.example:99999", which has no host, or one that cannot exist/,
    ],
    ["a store", storeUrl(), "jobgate.db", /^is "jobgate.db"; .*; did you mean "sqlite:jobgate.db"\?$/],
    [
      "a store with a port that cannot exist",
      storeUrl(),
      "postgres://u:SECRET@a:5432,b:99999/jobgate",
      /^is "postgres:\/\/…@a:5432,b:99999\/…", which has a host or port that cannot exist; expected "sqlite/,
    ],
    [
      "a list of hosts with a gap",
      storeUrl(),
      "postgres://a,,b/jobgate",
      /, which has an empty host in its list;/,
    ],
    ["an origin", web.webOrigin(), "https://shop.example/", /; did you mean "https:\/\/shop.example"\?$/],
    ["a listener", web.bindAddress(), 8402n, /^is 8402; .*; did you mean "127.0.0.1:8402"\?$/],
    ["a listener", web.bindAddress(), "/run/jobgate.sock", /; did you mean "unix:\/run\/jobgate.sock"\?$/],
    ["an address range", web.ipRange(), "10.0.0.0/64", /^is "10.0.0.0\/64"; expected an IPv4/],
    ["a duration", values.seconds(0), "60s", /^is "60s"; expected a number of seconds/],
    ["a duration", values.seconds(0), "60", /^is "60"; .*; did you mean 60 without quotes\?$/],
    ["a duration", values.wholeSeconds(), 1.5, /^is 1.5; expected an integer/],
    ["a price", dollarsOrSource(), 0.01, /^is 0.01; expected dollars .*; did you mean "\$0.01"\?$/],
    ["wei", values.wei(), 1000n, /^is 1000; .*; did you mean "1000" in quotes\?$/],
    ["an integer", values.integer(1, 5), "3", /^is "3"; .*; did you mean 3 without quotes\?$/],
    ["an integer", values.integer(1, 5), 6n, /^is 6; expected an integer from 1 to 5$/],
    ["an integer", values.u64(), 1, /^is 1\.0, which is a float; expected an integer .*; did you mean 1\?$/],
    ["an integer", values.integer(1, 5), 6, /^is 6\.0; expected an integer from 1 to 5$/],
    ["wei", values.wei(), 1, /^is 1\.0; .*; did you mean "1" in quotes\?$/],
    ["seconds", values.seconds(0), Number.POSITIVE_INFINITY, /^is inf; expected a number of seconds/],
    ["seconds", values.seconds(0), Number.NaN, /^is nan; expected a number of seconds/],
    ["days", values.days(), Number.NEGATIVE_INFINITY, /^is -inf; expected a number of days/],
    [
      "a word",
      values.oneOf(["public_paid", "disabled"]),
      "public-payd",
      /^is "public-payd"; .*; did you mean "public_paid"\?$/,
    ],
    ["a word", values.oneOf(["GET", "POST"]), "PUT", /^is "PUT"; expected "GET" or "POST"$/],
    ["true or false", values.trueOrFalse(), "true", /^is "true"; .*; did you mean true without quotes\?$/],
    ["a job's name", values.jobName(), "My job", /^is "My job"; .*; did you mean "my-job"\?$/],
    [
      "a long text",
      values.prose(),
      "a".repeat(5000),
      /^is "a{64}…", which has 5000 characters; expected text/,
    ],
    ["a number", values.integer(1, 5), [], /^is an array; expected an integer/],
    ["a text", values.label(), "", /^is an empty string; expected/],
  ])("%s: %#", (_, schema, value, message) => {
    expect(z.safeParse(schema, value).success).toBe(false);
    expect(messageOf(schema, value)).toMatch(message);
  });
});

describe("A mistake never quotes", () => {
  test.each<[what: string, schema: z.ZodType, value: unknown, message: RegExp]>([
    [
      "a private key",
      values.privateKey(),
      "hunter2",
      /^has a character that is not a hex digit; expected a private key/,
    ],
    ["a bearer token", values.bearerTokens(), "hunter2 hunter2", /^has a space, a line break/],
    [
      "a number in place of a password",
      values.text("the password"),
      12345n,
      /^is an integer; expected the password$/,
    ],
    ["the value of a header", values.headerValue(), " hunter2", /^has a space at an end/],
    [
      "a text where a table is expected",
      z.object({ key: values.text("a string") }).describe("a table"),
      "hunter2",
      /^is a string of 7 characters; /,
    ],
    [
      "what could be a key where an address is expected",
      values.address(),
      PRIVATE_KEY,
      /^has 64 hex digits; expected/,
    ],
    [
      "what could be a token where a name is expected",
      values.jobName(),
      "sk_live_51HxYz2eZvKYlo2C",
      /^is a string of 24 characters; expected/,
    ],
    [
      "credentials, path and query of a URL",
      web.httpUrl(),
      "htp://u:hun/ter2@node.example/v2/hunter2?key=hunter2",
      /^is "htp:\/\/…@node.example\/…", which does not/,
    ],
  ])("%s", (_, schema, value, message) => {
    expect(z.safeParse(schema, value).success).toBe(false);
    const text = messageOf(schema, value);
    expect(text).toMatch(message);
    expect(text).not.toMatch(/hunter2|12345|ter2|4c0883|sk_live/);
  });

  test("a value of the environment, and names its variable", () => {
    const text = messageOf(values.network(), "hunter2", "environment variable NETWORK");
    expect(text).toMatch(/^is a string of 7 characters \(environment variable NETWORK\); expected a CAIP-2/);
    const address = messageOf(values.address(), "0x12", "environment variable PAY_TO");
    expect(address).toMatch(/^has 2 hex digits \(environment variable PAY_TO\); expected an address/);
  });
});
