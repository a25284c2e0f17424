import { it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { expectExactThrough } from "./channels-crash.ts";
import { startChannelParts } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);

// The other points are in the full test.
it.each(["after-journal", "channels/after-claim"] as const)(
  "A kill at %s loses no call of a channel, and charges none twice",
  (point) => expectExactThrough(parts, point),
  150_000,
);
