import { testConsequences } from "./consequences.ts";

// The full tests try each value.
testConsequences({ every: 4 });
