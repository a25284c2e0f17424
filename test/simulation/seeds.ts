import { rmSync } from "node:fs";
import { join } from "node:path";
import { loadWorld } from "./bundle-world.ts";
import type { Mutant } from "./mutant.ts";
import type { Outcome, RunOptions } from "./world/world.ts";

/** Worlds by their seeds. */
export interface Seeds {
  run(seed: number): Promise<Outcome>;
  /** Seeds from 1 to a number, those of small worlds first. */
  smallestFirst(count: number): number[];
  /** Returns the smallest run found of this seed that breaks the same law. */
  shrink(broken: Outcome): Promise<Outcome>;
  close(): void;
}

/**
 * Opens the simulation, in memory, of the gateway or of one without a guard.
 * A disk that fails needs SQLite in WebAssembly installed.
 */
export async function openSeeds(mutant?: Mutant, options: Omit<RunOptions, "without"> = {}): Promise<Seeds> {
  const { loadDiskDriver, prepareFolder, runSeed, shrink, smallestFirst } = await loadWorld(mutant);
  if (options.hasDisk) await loadDiskDriver(join(import.meta.dirname, "sqlite"));
  const folder = prepareFolder();
  return {
    run: (seed) => runSeed(seed, folder, options),
    smallestFirst,
    shrink: (broken) => shrink(broken, (without) => runSeed(broken.seed, folder, { ...options, without })),
    close: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Runs seeds until a law is broken. @returns undefined if none is */
export async function firstBroken(
  seeds: Pick<Seeds, "run">,
  numbers: readonly number[],
): Promise<Outcome | undefined> {
  for (const seed of numbers) {
    const outcome = await seeds.run(seed);
    if (outcome.broken !== undefined) return outcome;
  }
  return undefined;
}

/** Numbers from the first on. */
export function seedsFrom(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => first + i);
}

/** Describes a run that broke a law, for people. */
export function describeRun({ seed, broken, trace }: Outcome): string {
  return [`seed ${seed}: ${broken}`, ...trace.map((line) => `  ${line}`)].join("\n");
}
