import { it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startSolanaParts } from "./harness.ts";
import { expectOnceThrough, SETTLER_POINTS } from "./own-settlement-crash.ts";

const parts = startBeforeAll(startSolanaParts);

it.each(SETTLER_POINTS)("A payment is settled and sold once, although its process is killed at %s", (point) =>
  expectOnceThrough(parts, point),
);
