import { describe, expect, it } from "vitest";
import type { WorldMutant } from "./mutant.ts";
import { firstBroken, openSeeds } from "./seeds.ts";
import type { RunOptions } from "./world/world.ts";

interface Worlds {
  /** Ends the sentence "Without one of its guards …". */
  readonly found?: string;
  readonly options?: RunOptions;
  /** Worlds that are tried for a mutant. */
  readonly mostSeeds?: number;
}

/**
 * Adds a test for each mutant: it breaks a law in the world that it names, or, after other changes, in another one, the smallest
 * first.
 */
export function testWorldMutants(
  mutants: readonly WorldMutant[],
  { found = "the gateway breaks a law in some world", options, mostSeeds = 100 }: Worlds = {},
): void {
  describe(`Without one of its guards ${found}:`, () => {
    it.each(mutants)("$name", async (mutant) => {
      const { parts, syncFailure } = mutant;
      const seeds = await openSeeds(mutant, { ...options, parts, syncFailure });
      const named = mutant.seed === undefined ? [] : [mutant.seed];
      const broken = await firstBroken(seeds, [...named, ...seeds.smallestFirst(mostSeeds)]);
      seeds.close();
      expect(broken?.broken).toMatch(/[a-z]/);
    });
  });
}
