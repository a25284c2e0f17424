import { expect, test } from "vitest";
import { afterReload, changesThatNeedRestart } from "../../src/config/reload.ts";
import { configOf, TOKEN, X402 } from "./config-folder.ts";

const ENGINE = `[pricing_engine]
url = "http://127.0.0.1:9"
chain_id = 1
verifying_contract = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
operator_address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
`;
const ENDPOINT = '[[webhooks.endpoints]]\npath = "/a"\njob_id = 1\n';

test("A reload changes prices, rates, policies and endpoints", async () => {
  const running = await configOf(`${X402}${TOKEN}[webhooks]\n`);
  const next = await configOf(
    `${X402}default_invocation_mode = "public_paid"\n${TOKEN.replace("3200.00", "3300.00")}${ENDPOINT}[job_pricing.1]\n0 = "1000000000000000"\n`,
  );
  expect(changesThatNeedRestart(running, next)).toEqual([]);
  expect(afterReload(running, next)).toEqual(next);
});

test("A reload does not change addresses, the store or the runner", async () => {
  const running = await configOf(`${X402}${TOKEN}[webhooks]\n`);
  const next = await configOf(
    `${X402}bind_address = "127.0.0.1:1"\n${TOKEN}[store]\nmax_pending = 5\n[runner]\nlease_secs = 1\n`,
  );
  expect(changesThatNeedRestart(running, next)).toEqual([
    "store",
    "runner",
    "x402.bind_address",
    "webhooks",
    "webhooks.bind_address",
  ]);
  expect(afterReload(running, next)).toEqual(running);
});

test("A change of the facilitator or of a whole table is named as the file spells it", async () => {
  const running = await configOf(`${X402}${TOKEN}${ENGINE}`);
  const facilitator = `${X402.replace("facilitator.example", "other.example")}facilitator_timeout_secs = 5\n`;
  expect(changesThatNeedRestart(running, await configOf(`service_id = 3\n${facilitator}${TOKEN}`))).toEqual([
    "service_id",
    "pricing_engine",
    "x402.facilitator_url",
    "x402.facilitator_timeout_secs",
  ]);
  expect(changesThatNeedRestart(running, await configOf(ENGINE))).toContain("x402");
});

test("Prices wait for the restart together with a change of the price source", async () => {
  const price = (wei: bigint) => `${ENGINE}[job_pricing.1]\n0 = "${wei}"\n`;
  const running = await configOf(`${X402}${TOKEN}${price(10n ** 15n)}`);
  const next = await configOf(`${X402}price_source = "engine"\nquote_ttl_secs = 60\n${TOKEN}${price(1n)}`);
  expect(changesThatNeedRestart(running, next)).toEqual(["x402.price_source", "job_pricing"]);
  expect(afterReload(running, next).x402).toMatchObject({
    priceSource: "map",
    jobPricing: new Map([["1/0", 10n ** 15n]]),
    quoteTtlSecs: 60,
  });
  const dearer = await configOf(`${X402}${TOKEN}${price(2n * 10n ** 15n)}`);
  expect(afterReload(running, dearer).x402?.jobPricing).toEqual(new Map([["1/0", 2n * 10n ** 15n]]));
});
