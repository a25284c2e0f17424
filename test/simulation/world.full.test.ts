import { describe, expect, it } from "vitest";
import { describeRun, firstBroken, openSeeds } from "./seeds.ts";
import { WORLD_MUTANTS } from "./world-mutants.ts";

/** Worlds that are tried from a mutant's seed on: after other changes, its seed may make another world. */
const MOST_SEEDS = 100;

it("Every run of many worlds keeps the laws of money", async () => {
  const seeds = await openSeeds();
  const broken = await firstBroken(seeds, 1_000, 40);
  seeds.close();
  expect(broken && describeRun(broken)).toBeUndefined();
});

describe("Without one of its guards the gateway breaks a law in some world:", () => {
  it.each(WORLD_MUTANTS)("$name", async (mutant) => {
    const seeds = await openSeeds(mutant);
    const broken = await firstBroken(seeds, mutant.seed ?? 1, MOST_SEEDS);
    seeds.close();
    expect(broken?.broken).toMatch(/[a-z]/);
  });
});
