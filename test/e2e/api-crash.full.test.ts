import { describe, expect, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { API_CRASHES, startApiCrashSite } from "./api-rounds.ts";

/** Rounds of each crash. One has 8 purchases on their way: 104 in all. */
const ROUNDS = Number(process.env.JOBGATE_API_CRASH_ROUNDS ?? 1);

/** Further rounds of a crash to whose step no purchase came: not every answer of the API is charged. */
const MORE_ROUNDS = 3;

describe("An API that is sold, on SQLite", () => {
  const site = startBeforeAll(() => startApiCrashSite());

  it.each(API_CRASHES)("is killed %s", { timeout: ROUNDS * 300_000 }, async (crash) => {
    let met = 0;
    for (let round = 0; round < ROUNDS || (met === 0 && round < ROUNDS + MORE_ROUNDS); round++)
      if (await site.round(crash)) met += 1;
    expect(met).toBeGreaterThan(0);
  });

  it("charges each answer once, and nothing else, and gives it again", () => site.expectAllAccounted());
});

describe("An API that is sold, on Postgres", () => {
  const postgres = startBeforeAll(startPostgres);
  const site = startBeforeAll(async () =>
    startApiCrashSite({ storeUrl: await postgres.createDatabase(), seed: 2 }),
  );

  it("is killed at other steps", { timeout: ROUNDS * 600_000 }, async () => {
    // After each, it takes 10 s until another process may charge.
    const third = API_CRASHES.filter((_, i) => i % 3 === 1);
    for (const crash of howMany(third, [...API_CRASHES])) await site.round(crash);
  });

  it("charges each answer once, and nothing else, and gives it again", () => site.expectAllAccounted());
});
