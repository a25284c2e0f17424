import { afterAll, beforeAll, describe, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { type SettlerCrash, type SettlerSite, startSettlerSite } from "./settler-rounds.ts";

const CRASH_ROUNDS = howMany(1, 5);
const FROZEN_ROUNDS = howMany(1, 3);
const timeout = 1_200_000;

let postgres: Postgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());

/** Every crash, in an even round and in an odd one where those differ. */
const CRASHES: readonly SettlerCrash[] = [
  "transactions/before-journal",
  "transactions/after-broadcast",
  "transactions/after-broadcast",
  "transactions/after-replacement",
  "transactions/after-replacement",
  "transactions/after-journal",
];

/** Runs rounds of all cases in turn on one site, and compares the books afterwards. */
async function inTurn(
  cases: readonly SettlerCrash[],
  options: {
    readonly rounds: number;
    readonly round: (site: SettlerSite, one: SettlerCrash) => Promise<void>;
    readonly on?: Postgres;
  },
): Promise<void> {
  const site = await startSettlerSite(options.on);
  try {
    for (let done = 0; done < options.rounds; done++) for (const one of cases) await options.round(site, one);
    await site.expectAllAccounted();
  } finally {
    await site.stop();
  }
}

describe("A jobgate that settles itself mines one transaction for each payment, without a missing nonce", () => {
  it("although it is killed again and again", { timeout }, () =>
    inTurn(CRASHES, { rounds: CRASH_ROUNDS, round: (site, crash) => site.crash(crash) }),
  );

  it("although one of two replicas is killed again and again", { timeout }, () =>
    inTurn(CRASHES, {
      rounds: CRASH_ROUNDS,
      round: (site, crash) => site.crash(crash),
      on: postgres,
    }),
  );

  it("although one of two replicas stalls until the other has taken its place", { timeout }, () =>
    inTurn(["transactions/before-journal", "transactions/after-journal"], {
      rounds: FROZEN_ROUNDS,
      round: (site, at) => site.freeze(at),
      on: postgres,
    }),
  );
});
