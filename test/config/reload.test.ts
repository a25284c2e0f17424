import { expect, test } from "vitest";
import { afterReload, changesThatNeedRestart } from "../../src/config/reload.ts";
import { loadFiles, TOKEN, X402 } from "./config-folder.ts";

async function configOf(toml: string) {
  const result = await loadFiles(toml);
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  return result.config;
}

test("Prices, rates, policies and endpoints change without a restart; addresses and the store do not", async () => {
  const before = await configOf(`${X402}${TOKEN}[webhooks]\n`);
  const reloadable = await configOf(
    `${X402}default_invocation_mode = "public_paid"\n${TOKEN.replace("3200.00", "3300.00")}[[webhooks.endpoints]]\npath = "/a"\njob_id = 1\n[job_pricing.1]\n0 = "1000000000000000"\n`,
  );
  expect(changesThatNeedRestart(before, reloadable)).toEqual([]);
  const fixed = await configOf(
    `${X402}bind_address = "127.0.0.1:1"\n${TOKEN}[store]\nmax_pending = 5\n[runner]\nlease_secs = 1\n`,
  );
  expect(changesThatNeedRestart(before, fixed)).toEqual([
    "store",
    "runner",
    "x402.bind_address",
    "webhooks",
    "webhooks.bind_address",
  ]);
});

test("Prices of a file that names another price source wait for the restart, whatever else it changes", async () => {
  const engine = `[pricing_engine]
url = "http://127.0.0.1:9"
chain_id = 1
verifying_contract = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
operator_address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
`;
  const prices = (wei: string) => `${engine}[job_pricing.1]\n0 = "${wei}"\n`;
  const running = await configOf(`${X402}${TOKEN}${prices("1000000000000000")}`);
  const next = await configOf(`${X402}price_source = "engine"\nquote_ttl_secs = 60\n${TOKEN}${prices("1")}`);
  expect(changesThatNeedRestart(running, next)).toEqual(["x402.price_source", "job_pricing"]);
  expect(afterReload(running, next).x402).toMatchObject({
    priceSource: "map",
    jobPricing: new Map([["1/0", 10n ** 15n]]),
    quoteTtlSecs: 60,
  });
  const dearer = await configOf(`${X402}${TOKEN}${prices("2000000000000000")}`);
  expect(afterReload(running, dearer).x402?.jobPricing).toEqual(new Map([["1/0", 2n * 10n ** 15n]]));
});
