import { testConsequences } from "./consequences.ts";

testConsequences({ every: 1 });
