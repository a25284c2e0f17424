import { expect, onTestFinished, test } from "vitest";
import type { QuoteSigning } from "../../../src/parts/pricing-engine/config.ts";
import { findEngineProblems, jobsToAskFor } from "../../../src/parts/pricing-engine/online-check.ts";
import { startPricingEngine } from "../../helpers/pricing-engine.ts";

const bindAddress = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
const JOBS = jobsToAskFor(1n, undefined);

/** Checks an engine that prices the second job alone, with a configuration of its own. */
async function check(wrong: Partial<QuoteSigning> = {}, difficulty = 8) {
  const engine = await startPricingEngine({ prices: { "1/1": 5n }, difficulty });
  onTestFinished(() => engine.stop());
  const signing = { ...engine.signing, ...wrong };
  return findEngineProblems({ url: engine.url, bindAddress, signing, proofOfWorkBits: 8 }, JOBS);
}

test("An engine whose quotes pass the checks has no problem", async () => {
  expect(await check()).toEqual([]);
});

test.each<[string, Partial<QuoteSigning>]>([
  ["chain_id", { chainId: 1 }],
  ["verifying_contract", { verifyingContract: "0x000000000000000000000000000000000000bEEF" }],
  ["operator_address", { operatorAddress: "0x000000000000000000000000000000000000bEEF" }],
])("A wrong %s is found by a quote, and the message has the configured one", async (key, wrong) => {
  const found = await check(wrong);
  expect(found).toMatchObject([{ path: ["pricing_engine", "verifying_contract"] }]);
  expect(found[0]?.message).toContain(key);
  expect(found[0]?.message).toContain(String(Object.values(wrong)[0]));
});

test("Too few proof_of_work_bits are found", async () => {
  // Eight bits pass this engine's check once in 2^56 tries.
  const [found] = await check({}, 64);
  expect(found?.message).toContain("INVALID_ARGUMENT: invalid proof of work");
});

test("An engine that prices none of the jobs cannot be checked further", async () => {
  const engine = await startPricingEngine();
  onTestFinished(() => engine.stop());
  const { url, signing } = engine;
  expect(await findEngineProblems({ url, bindAddress, signing, proofOfWorkBits: 8 }, JOBS)).toEqual([]);
});
