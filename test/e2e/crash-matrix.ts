import { describe, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { CRASHES, startCrashSite } from "./crash-rounds.ts";
import type { SetUp } from "./paid-gateway.ts";

const ROUNDS = howMany(2, 10);

/** Rounds of every crash. Each set-up has its own file, so that they run in parallel. */
export function describeCrashMatrix(setUp: SetUp): void {
  describe(`Crash: kill -9, ${ROUNDS} rounds of each, with ${setUp}`, () => {
    const site = startBeforeAll(() => startCrashSite(setUp));

    it.each(CRASHES)(
      "%s loses no settled payment and runs no unpaid job",
      { timeout: ROUNDS * 600_000 },
      async (crash) => {
        for (let round = 0; round < ROUNDS; round++) await site.round(crash);
      },
    );

    it("Afterwards the journal balances, and chain, journal and runner agree", async () => {
      await site.expectAllAccounted();
    });
  });
}
