import { it } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { expectExactThrough, TRANSACTION_POINTS } from "../parts/channels/channels-crash.ts";
import { startChannelParts, startPermit2Parts } from "../parts/channels/harness.ts";
import { localSettler } from "./local-facilitator.ts";

const POINTS = [
  ...TRANSACTION_POINTS,
  "after-settle",
  "channels/after-claim",
  "channels/after-refund",
] as const;
const parts = startBeforeAll(startChannelParts);
const permit2Parts = startBeforeAll(startPermit2Parts);

it.each(POINTS)(
  "A kill at %s of a jobgate that sends its own transactions loses no call of a channel, and charges none twice",
  async (point) => expectExactThrough(parts, point, await localSettler({ anvil: parts.anvil })),
);

it("A kill after a deposit by Permit2 was sent deposits once", async () =>
  expectExactThrough(permit2Parts, "transactions/after-broadcast", {
    ...(await localSettler({ anvil: permit2Parts.anvil })),
    byPermit2: true,
  }));
