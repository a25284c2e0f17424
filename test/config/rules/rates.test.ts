import { expect, test } from "vitest";
import { mistakesOf, TOKEN, X402 } from "../config-folder.ts";
import { testMistakes, without } from "../mistake-cases.ts";

const UNRATED = without(TOKEN, "rate_per_native_unit");

test.each([
  ["of the table", "x402", UNRATED, 'rate_per_native_unit = "0"\n'],
  ["of the token", "x402.accepted_tokens[0]", TOKEN.replace('"3200.00"', '"0"'), ""],
  ["beside a currency", "x402", `${UNRATED}currency = "USD"\n`, 'rate_per_native_unit = "0"\n'],
])("A wrong rate %s is the only mistake, also if jobs are priced in wei", async (_, at, token, rate) => {
  const toml = `${X402}default_invocation_mode = "public_paid"\n${rate}${token}[job_pricing.1]\n0 = "${10n ** 15n}"`;
  const found = await mistakesOf(toml);
  expect(found.map(({ place }) => place.split(" ")[1])).toEqual([`${at}.rate_per_native_unit`]);
});

testMistakes([
  {
    promise: "A token without any rate is a mistake",
    toml: `${X402}${UNRATED}`.replace("[[x402.accepted_tokens]]", "[[x402.accepted_tokens]] #!"),
    keyPath: "x402.accepted_tokens[0].rate_per_native_unit",
    message: /is missing; expected a rate here or as x402.rate_per_native_unit/,
  },
]);
