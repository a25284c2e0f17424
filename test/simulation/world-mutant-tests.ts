import { describe, expect, it } from "vitest";
import type { WorldMutant } from "./mutant.ts";
import { firstBroken, openSeeds } from "./seeds.ts";

/** Worlds that are tried for a mutant. */
const MOST_SEEDS = 100;

/** Adds a test for each mutant: it breaks a law in the world that it names, or, after other changes, in another one. */
export function testWorldMutants(mutants: readonly WorldMutant[]): void {
  describe("Without one of its guards the gateway breaks a law in some world:", () => {
    it.each(mutants)("$name", async (mutant) => {
      const seeds = await openSeeds(mutant, { parts: mutant.parts });
      const named = mutant.seed === undefined ? [] : [mutant.seed];
      const broken = await firstBroken(seeds, [...named, ...seeds.smallestFirst(MOST_SEEDS)]);
      seeds.close();
      expect(broken?.broken).toMatch(/[a-z]/);
    });
  });
}
