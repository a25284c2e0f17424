import { DECISION_MUTANTS } from "./decision-mutants.ts";
import type { Mutant } from "./mutant.ts";
import { POSTGRES_ROW_MUTANTS } from "./postgres-row-mutants.ts";
import { REACTION_MUTANTS } from "./reaction-mutants.ts";

/** A mutant that a test of the store finds. */
export interface StoreMutant extends Mutant {
  readonly name: string;
  /** Name of the test, after the names of its groups. */
  readonly test: string;
}

/** Guards of the store, each with the test that misses it. */
export const STORE_MUTANTS: readonly StoreMutant[] = [
  ...REACTION_MUTANTS,
  ...DECISION_MUTANTS,
  ...POSTGRES_ROW_MUTANTS,
];
