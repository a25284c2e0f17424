import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../helpers/bundle.ts";
import type { PartName } from "./world/world.ts";

/** A change that removes one guard. */
export interface Mutant {
  /** Path in `src`. */
  readonly file: string;
  /** Text that occurs once. */
  readonly from: string;
  readonly to: string;
}

/** A mutant that breaks a law in some simulated worlds. */
export interface WorldMutant extends Mutant {
  readonly name: string;
  /** Parts of its worlds, in place of those that their seeds draw: the fewer, the sooner a world ends. */
  readonly parts?: readonly PartName[];
  /** Seed of such a world that ends early, which small worlds do not have. */
  readonly seed?: number;
  /** Probability that a sync of the disk fails in its worlds. */
  readonly syncFailure?: number;
}

/** Path of the file that a mutant changes. */
export const pathOf = ({ file }: Mutant): string => join(ROOT, "src", file);

/** Returns the file without the guard. @throws Error when its text is not there once */
export function mutated(mutant: Mutant): string {
  const path = pathOf(mutant);
  const [before, after, ...others] = readFileSync(path, "utf8").split(mutant.from);
  if (before === undefined || after === undefined || others.length > 0)
    throw new Error(`${path} has ${JSON.stringify(mutant.from)} not once`);
  return before + mutant.to + after;
}
