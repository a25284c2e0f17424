import { expect, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { describeRun, firstBroken, openSeeds, seedsFrom } from "./seeds.ts";
import { testWorldMutants } from "./world-mutant-tests.ts";
import { CORE_MUTANTS } from "./world-mutants.ts";

it("Every run of many worlds keeps the laws of money", async () => {
  const seeds = await openSeeds();
  const broken = await firstBroken(seeds, seedsFrom(1_000, howMany(5, 100)));
  seeds.close();
  expect(broken && describeRun(broken)).toBeUndefined();
});

testWorldMutants(CORE_MUTANTS);
