import { afterAll, beforeAll, describe, it } from "vitest";
import { CRASHES, type CrashSite, startCrashSite } from "./crash-rounds.ts";
import { SET_UPS } from "./paid-gateway.ts";

const ROUNDS = 10;

describe.each(SET_UPS)("Crash: kill -9, ten rounds of each, with %s", (setUp) => {
  let site: CrashSite;

  beforeAll(async () => {
    site = await startCrashSite(setUp);
  });
  afterAll(() => site?.stop());

  it.each(CRASHES)(
    "%s loses no settled payment and runs no unpaid job",
    { timeout: 240_000 },
    async (crash) => {
      for (let round = 0; round < ROUNDS; round++) await site.round(crash);
    },
  );

  it("Then the journal balances, and chain, journal and runner agree", async () => {
    await site.expectAllAccounted();
  });
});
