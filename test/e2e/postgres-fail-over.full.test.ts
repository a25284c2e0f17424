import { describe, onTestFinished, test } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { type PostgresPair, startPostgresPair } from "../helpers/postgres-standby.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidParts } from "./paid-parts.ts";
import { withoutItsPrimary } from "./postgres-site.ts";

const ROUNDS = howMany(2, 20);

const parts = startBeforeAll(() => startPaidParts());
async function startPair(): Promise<PostgresPair> {
  const pair = await startPostgresPair();
  onTestFinished(() => pair.stop());
  return pair;
}

/** Takes the primary away under load, promotes the standby, and checks what was promised. */
async function failOver(
  round: string,
  pair: PostgresPair,
  takeAway: () => Promise<void> | void,
): Promise<void> {
  await withoutItsPrimary({ parts, url: pair.url, round, takeAway, replacePrimary: pair.standby.promote });
}

describe("A fail-over to a synchronous standby loses and doubles nothing, and writes resume within 5 s of its promotion", () => {
  test.each(Array.from({ length: ROUNDS }, (_, index) => index + 1))(
    "After a kill -9 of the primary, round %i",
    async (number) => {
      const pair = await startPair();
      await failOver(`kill ${number}`, pair, pair.killPrimary);
    },
  );

  test("While the primary is silent, its connections still open", async () => {
    const pair = await startPair();
    await failOver("silence", pair, pair.silencePrimary);
  });
});
