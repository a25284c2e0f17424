import { describe, it } from "vitest";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { CRASHES, startCrashSite } from "./crash-rounds.ts";
import { SET_UPS } from "./paid-gateway.ts";

const postgres = startBeforeAll(startPostgres);

describe.each(SET_UPS)("Crash: kill -9, on Postgres, with %s", (setUp) => {
  const site = startBeforeAll(() => startCrashSite(setUp, { newStoreUrl: () => postgres.createDatabase() }));

  it.each(CRASHES)("%s loses no settled payment and runs no unpaid job", (crash) => site.round(crash));

  it("Afterwards the journal balances, and chain, journal and runner agree", async () => {
    await site.expectAllAccounted();
  });
});
