import { it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { CHANNEL_POINTS, expectExactThrough } from "./channels-crash.ts";
import { startChannelParts } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);

it.each(CHANNEL_POINTS)("A kill at %s loses no call of a channel, and charges none twice", (point) =>
  expectExactThrough(parts, point),
);
