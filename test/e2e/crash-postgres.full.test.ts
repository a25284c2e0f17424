import { afterAll, beforeAll, describe, it } from "vitest";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { CRASHES, type CrashSite, startCrashSite } from "./crash-rounds.ts";
import { SET_UPS } from "./paid-gateway.ts";

let postgres: Postgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());

describe.each(SET_UPS)("Crash: kill -9, on Postgres, with %s", (setUp) => {
  let site: CrashSite;

  beforeAll(async () => {
    site = await startCrashSite(setUp, { newStoreUrl: () => postgres.createDatabase() });
  });
  afterAll(() => site?.stop());

  it.each(CRASHES)("%s loses no settled payment and runs no unpaid job", { timeout: 60_000 }, (crash) =>
    site.round(crash),
  );

  it("Afterwards the journal balances, and chain, journal and runner agree", async () => {
    await site.expectAllAccounted();
  });
});
