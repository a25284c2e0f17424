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

it("A run that breaks a law is printed without what the law does not need", async () => {
  const careless = await openSeeds({
    file: "x402/settlement/outcome-recorder.ts",
    from: "return this.#undecided(intent, evidence.reason);",
    to: "return this.fail(intent, evidence.reason);",
  });
  const broken = await firstBroken(careless, seedsFrom(8, 10));
  if (broken === undefined) throw new Error("no run broke a law");
  const smallest = await careless.shrink(broken);
  careless.close();
  expect(describeRun(smallest)).toMatch(
    /^seed [0-9]+: payment [0-9a-f]+ of [a-z]+ [0-9]+ was charged after a no\n/,
  );
  expect(smallest.faults.length).toBeLessThan(10);
  expect(smallest.trace.length).toBeLessThan(60);
});

testWorldMutants(CORE_MUTANTS);
