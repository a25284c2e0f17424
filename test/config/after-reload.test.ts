import { expect, test } from "vitest";
import { afterReload } from "../../src/config/after-reload.ts";
import { loadFiles, TOKEN, X402 } from "./config-folder.ts";

const ENGINE = `[pricing_engine]
url = "http://127.0.0.1:9"
chain_id = 1
verifying_contract = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
operator_address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
`;

async function configOf(wei: bigint, x402Keys = "") {
  const toml = `${X402}${x402Keys}${TOKEN}${ENGINE}[job_pricing.1]\n0 = "${wei}"\n`;
  const result = await loadFiles(toml);
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  return result.config;
}

test("Prices of a file that names another price source do not count, while the rest of it does", async () => {
  const running = await configOf(10n ** 15n);
  const next = await configOf(1n, 'price_source = "engine"\nquote_ttl_secs = 60\n');
  expect(afterReload(running, next).x402).toMatchObject({
    priceSource: "map",
    jobPricing: new Map([["1/0", 10n ** 15n]]),
    quoteTtlSecs: 60,
  });
  const dearer = await configOf(2n * 10n ** 15n);
  expect(afterReload(running, dearer).x402?.jobPricing).toEqual(new Map([["1/0", 2n * 10n ** 15n]]));
});
