import { it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { expectChargedOnce } from "./charge-after.ts";
import { startSolanaParts } from "./harness.ts";

const parts = startBeforeAll(startSolanaParts);

it("A job that was done and not charged before a kill is charged once after it", () =>
  expectChargedOnce(parts, { crashAt: "before-charge" }));
