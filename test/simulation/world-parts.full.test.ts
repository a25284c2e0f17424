import { expect, it } from "vitest";
import { openSeeds, seedsFrom } from "./seeds.ts";
import { testWorldMutants } from "./world-mutant-tests.ts";
import { PART_MUTANTS } from "./world-mutants.ts";

it("In some world a fork takes a payment on Solana away after its job was sold", async () => {
  const seeds = await openSeeds(undefined, { parts: ["payments on Solana"] });
  const taken: string[] = [];
  for (const seed of seedsFrom(37, 20)) {
    const { trace } = await seeds.run(seed);
    taken.push(...trace.filter((line) => line.includes("a fork took it away")));
    if (taken.length > 0) break;
  }
  seeds.close();
  expect(taken).not.toEqual([]);
});

testWorldMutants(PART_MUTANTS);
