import { expect, it } from "vitest";
import { describeRun, firstBroken, openSeeds, seedsFrom } from "./seeds.ts";
import { testWorldMutants } from "./world-mutant-tests.ts";
import { CORE_MUTANTS } from "./world-mutants.ts";

it("Every run of many worlds keeps the laws of money", async () => {
  const seeds = await openSeeds();
  const broken = await firstBroken(seeds, seedsFrom(1_000, 16));
  seeds.close();
  expect(broken && describeRun(broken)).toBeUndefined();
});

testWorldMutants(CORE_MUTANTS);
