import { beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { howMany } from "../helpers/how-many.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { expectBalance } from "./ledger.ts";
import { authorize, decided, offerMetered, startMeteredGateway, startMeteredParts } from "./metered.ts";

/** Steps of a purchase, and those of its charge. */
const CRASHES = [
  "before-journal",
  "after-journal",
  "before-delivery",
  "before-ack",
  "after-ack",
  "before-charge",
  "after-settle",
  "after-commit",
] as const;
/** Steps after which another process has to charge, and in long runs all. */
const CHARGE_CRASHES = CRASHES.slice(howMany(CRASHES.indexOf("after-ack"), 0));
/** Rounds of each crash. */
const ROUNDS = howMany(1, 10);

const parts = startBeforeAll(startMeteredParts);
const postgres = startBeforeAll(startPostgres);
const received = () => parts.usdc.balanceOf(accounts.payTo.address);

let receivedBefore = 0n;
let charged = 0n;
beforeAll(async () => {
  receivedBefore = await received();
});

async function crash(crashAt: string, charge: bigint, storeUrl?: string): Promise<void> {
  const gateway = await startMeteredGateway({
    parts,
    setUp: "rpc_url",
    env: { JOBGATE_CRASH_AT: crashAt },
    // A JobCall that was with the runner comes again once its lease has run out.
    leaseSecs: 2,
    ...(storeUrl !== undefined && { storeUrl }),
  });
  try {
    const payment = await authorize(gateway);
    const body = `${charge} killed ${crashAt}`;
    await gateway.send(payment, { body }).catch(() => undefined);
    expect(await gateway.jobgate.exited).toEqual({ code: null, signal: "SIGKILL" });
    await gateway.startAgain({ asProcess: true });
    await offerMetered(gateway);
    const bought = await gateway.sendUntilDecided(payment, { body });
    expect(bought).toMatchObject({ status: 202 });
    expect(await decided(gateway, bought), body).toMatchObject({
      state: "succeeded",
      charge: { state: "settled", amount: String(charge) },
      result: { status: 200 },
    });
    charged += charge;
    expect(new Set(gateway.jobsWith(body).map(({ callId }) => callId)).size).toBe(1);
    await expectBalance(gateway);
  } finally {
    await gateway.stop();
  }
}

describe("A gateway that is killed", () => {
  it.each(CRASHES)("%s charges once, and what the runner said", async (crashAt) => {
    for (let round = 1; round <= ROUNDS; round++) await crash(crashAt, BigInt(round));
  });

  // At once: the right to charge comes back 10 s after the process that had it was killed.
  it("At any step of its charge charges once, and what the runner said, on Postgres", async () => {
    for (let round = 1; round <= ROUNDS; round++)
      await Promise.all(
        CHARGE_CRASHES.map(async (at, step) =>
          crash(at, BigInt(100 * round + step), await postgres.createDatabase()),
        ),
      );
  });

  it("Has charged, by the chain, what the runners said", async () => {
    expect((await received()) - receivedBefore).toBe(charged);
  });
});
