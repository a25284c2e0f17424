import { describe, it } from "vitest";
import { atOnce } from "../helpers/at-once.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { SETTLER_CRASHES, type SettlerSite, startSettlerSite } from "./settler-rounds.ts";

const CRASH_ROUNDS = Number(process.env.JOBGATE_SETTLER_CRASH_ROUNDS ?? 4);
const FROZEN_ROUNDS = 3;
const timeout = 1_200_000;

const postgres = startBeforeAll(startPostgres);

/** Runs rounds on a site of their own, and compares the books afterwards. */
async function onOwnSite(
  rounds: number,
  round: (site: SettlerSite) => Promise<void>,
  on?: typeof postgres,
): Promise<void> {
  const site = await startSettlerSite(on);
  try {
    for (let done = 0; done < rounds; done++) await round(site);
    await site.expectAllAccounted();
  } finally {
    await site.stop();
  }
}

describe("A jobgate that settles itself mines one transaction for each payment, without a missing nonce", () => {
  it("although it is killed again and again, or one of two replicas stalls until the other has taken its place", {
    timeout,
  }, async () => {
    const frozen = ["settler-before-journal", "settler-after-journal"] as const;
    await atOnce(
      [...SETTLER_CRASHES.map((at) => ({ kill: at })), ...frozen.map((at) => ({ freeze: at }))],
      (one) =>
        "kill" in one
          ? onOwnSite(CRASH_ROUNDS, (site) => site.crash(one.kill))
          : onOwnSite(FROZEN_ROUNDS, (site) => site.freeze(one.freeze), postgres),
    );
  });

  it("although one of two replicas is killed again and again", { timeout }, () =>
    atOnce(SETTLER_CRASHES, (at) => onOwnSite(CRASH_ROUNDS, (site) => site.crash(at), postgres)),
  );
});
