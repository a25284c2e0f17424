import { describe, expect, it, onTestFinished } from "vitest";
import { atOnce } from "../helpers/at-once.ts";
import { freePort } from "../helpers/free-port.ts";
import { howMany } from "../helpers/how-many.ts";
import { ACCEPTED, UNDECIDED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { SET_UPS, type SetUp } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";
import { startSellingGateway, startServingGateway } from "./served-facilitator.ts";

const ROUNDS = howMany(1, 3);
const POINTS = ["transactions/before-journal", "transactions/after-journal", "transactions/after-broadcast"];

describe("A seller whose facilitator is another jobgate, which is killed", () => {
  it.each(SET_UPS)(
    `at each step of a settlement, is paid once for each payment, by one transaction, with %s`,
    (setUp) => atOnce(POINTS, (point) => killAt(point, setUp)),
    1_000_000,
  );
});

async function killAt(point: string, setUp: SetUp): Promise<void> {
  const parts = await startPaidParts();
  onTestFinished(() => parts.stop());
  const port = await freePort();
  const serving = await startServingGateway({ parts, port, asProcess: true });
  onTestFinished(() => serving.stop());
  const selling = await startSellingGateway({
    parts,
    setUp,
    serviceUrl: serving.serviceUrl,
    periods: { confirmationTimeoutMs: 500, roundMs: 100, firstDelayMs: 100, secondLookAfterMs: 100 },
  });
  onTestFinished(() => selling.stop());
  const sent = () => parts.anvil.client.getTransactionCount({ address: serving.settler });
  for (let round = 0; round < ROUNDS; round++) {
    await serving.restart({ env: { JOBGATE_CRASH_AT: point } });
    const before = await sent();
    const expectChanges = await watchLedger(parts, selling);
    const payment = await selling.sign();
    const body = `${point} ${setUp} ${round}`;
    const answer = await selling.send(payment, { body });
    await serving.startAgain({ asProcess: true });
    if (answer.status !== 202) expect(answer).toEqual(UNDECIDED);
    expect(await selling.sendUntilDecided(payment, { body, timeoutMs: 250_000 })).toMatchObject(ACCEPTED);
    await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 0, settleCalls: 0 });
    expect(await sent()).toBe(before + 1);
  }
}
