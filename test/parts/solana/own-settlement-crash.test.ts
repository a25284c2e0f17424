import { it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startSolanaParts } from "./harness.ts";
import { expectOnceThrough } from "./own-settlement-crash.ts";

const parts = startBeforeAll(startSolanaParts);

it("A settlement that was journalled and not broadcast before a kill is sent once after it", () =>
  expectOnceThrough(parts, "transactions/after-journal"));
