import { describe, it } from "vitest";
import { howMany } from "../../helpers/how-many.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { CHANNEL_POINTS, DEPOSIT_POINTS, expectExactThrough } from "./channels-crash.ts";
import { startChannelParts, startPermit2Parts } from "./harness.ts";

describe("With deposits by EIP-3009", () => {
  const parts = startBeforeAll(startChannelParts);

  it.each(CHANNEL_POINTS)("A kill at %s loses no call of a channel, and charges none twice", (point) =>
    expectExactThrough(parts, point),
  );
});

describe("With deposits by Permit2", () => {
  const parts = startBeforeAll(startPermit2Parts);

  // What comes after a deposit is the same however it was made.
  it.each(howMany<readonly (typeof CHANNEL_POINTS)[number][]>(DEPOSIT_POINTS, CHANNEL_POINTS))(
    "A kill at %s loses no call of a channel, and charges none twice",
    (point) => expectExactThrough(parts, point, { byPermit2: true }),
  );

  it.each(DEPOSIT_POINTS)(
    "A kill at %s of a second deposit deposits once, and charges no call twice",
    (point) => expectExactThrough(parts, point, { byPermit2: true, atTopUp: true }),
  );
});
