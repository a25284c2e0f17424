import { afterAll, beforeAll, describe, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { SETTLER_CRASHES, type SettlerSite, startSettlerSite } from "./settler-rounds.ts";

const CRASH_ROUNDS = howMany(2, 10);
const FROZEN_ROUNDS = howMany(1, 3);
const timeout = 1_200_000;

let postgres: Postgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());

/** Runs rounds of each case on a site of its own, and compares the books afterwards. At once, because they mostly wait. */
async function onOwnSites<Case extends string>(
  cases: readonly Case[],
  options: {
    readonly rounds: number;
    readonly round: (site: SettlerSite, one: Case) => Promise<void>;
    readonly on?: Postgres;
  },
): Promise<void> {
  const ends = await Promise.allSettled(
    cases.map(async (one) => {
      const site = await startSettlerSite(options.on);
      try {
        for (let done = 0; done < options.rounds; done++) await options.round(site, one);
        await site.expectAllAccounted();
      } finally {
        await site.stop();
      }
    }),
  );
  for (const [i, end] of ends.entries())
    if (end.status === "rejected") throw new Error(`${cases[i]}: ${end.reason}`, { cause: end.reason });
}

describe("A jobgate that settles itself mines one transaction for each payment, without a missing nonce", () => {
  it("although it is killed again and again", { timeout }, () =>
    onOwnSites(SETTLER_CRASHES, { rounds: CRASH_ROUNDS, round: (site, crash) => site.crash(crash) }),
  );

  it("although one of two replicas is killed again and again", { timeout }, () =>
    onOwnSites(SETTLER_CRASHES, {
      rounds: CRASH_ROUNDS,
      round: (site, crash) => site.crash(crash),
      on: postgres,
    }),
  );

  it("although one of two replicas stalls until the other has taken its place", { timeout }, () =>
    onOwnSites(["transactions/before-journal", "transactions/after-journal"] as const, {
      rounds: FROZEN_ROUNDS,
      round: (site, at) => site.freeze(at),
      on: postgres,
    }),
  );
});
