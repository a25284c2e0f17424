import { describe, expect, it } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED, FAILED, UNDECIDED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { type Payment, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const careful = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    confirmations: 3,
    periods: { confirmationTimeoutMs: 500 },
  }),
);
const mine = (blocks: number) => parts.anvil.client.mine({ blocks });

// The order matters: after a reorganisation the facilitator counts its transactions wrongly.
describe("Chain: three confirmations", () => {
  async function settledInLastBlock(payment: Payment, body: string): Promise<void> {
    expect(await careful.send(payment, { body })).toEqual(UNDECIDED);
    expect(careful.jobsWith(body)).toEqual([]);
  }

  it("A settlement is accepted after three blocks, and not before", async () => {
    const body = "confirmed";
    const payment = await careful.sign();
    const expectChanges = await watchLedger(parts, careful);
    await settledInLastBlock(payment, body);
    await mine(1);
    expect(await careful.send(payment, { body })).toEqual(UNDECIDED);
    await mine(1);
    expect(await careful.sendUntilDecided(payment, { body })).toMatchObject(ACCEPTED);
    await careful.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it("A settlement that a reorganisation removes starts no job, and ends in settlement_failed", async () => {
    const payment = await careful.sign();
    const expectChanges = await watchLedger(parts, careful);
    const snapshot = await parts.anvil.client.snapshot();
    await settledInLastBlock(payment, "reorganised");
    await parts.anvil.client.revert({ id: snapshot });
    await mine(5);
    expect(await careful.send(payment, { body: "reorganised" })).toEqual(UNDECIDED);
    await parts.passTime(301);
    await mine(3);
    expect(await careful.sendUntilDecided(payment, { body: "reorganised" })).toMatchObject(FAILED);
    await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
  });

  it("A settlement that comes back in another block after a reorganisation is one job", async () => {
    const body = "came back";
    const payment = await careful.sign();
    const snapshot = await parts.anvil.client.snapshot();
    careful.facilitatorProxy.add({ path: "/settle", fault: { kind: "cut" } });
    expect(await careful.send(payment, { body })).toEqual(UNDECIDED);
    await parts.usdc.transferWithAuthorization(payment.signed);
    await parts.anvil.client.revert({ id: snapshot });
    await mine(2);
    await parts.usdc.transferWithAuthorization(payment.signed);
    await mine(2);
    expect(await careful.sendUntilDecided(payment, { body })).toMatchObject(ACCEPTED);
    expect(await careful.waitForJobs(body)).toHaveLength(1);
  });
});
