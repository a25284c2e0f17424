import { expect, test } from "vitest";
import { changesThatNeedRestart } from "../../src/config/reload.ts";
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

test("With the price source, the prices of the file wait for the restart too", async () => {
  const signing = '"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"';
  const engine = `[pricing_engine]
url = "http://127.0.0.1:9"
chain_id = 1
verifying_contract = ${signing}
operator_address = ${signing}
`;
  const running = await configOf(`${X402}${TOKEN}${engine}`);
  const next = await configOf(`${X402}price_source = "engine"\n${TOKEN}${engine}`);
  expect(changesThatNeedRestart(running, next)).toEqual(["x402.price_source", "job_pricing"]);
});
