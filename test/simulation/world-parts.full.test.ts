import { testWorldMutants } from "./world-mutant-tests.ts";
import { PART_MUTANTS } from "./world-mutants.ts";

testWorldMutants(PART_MUTANTS);
