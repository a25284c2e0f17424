import pLimit from "p-limit";
import { afterEach, describe, expect, it, vi } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED, FAILED, UNAVAILABLE, UNDECIDED } from "./expected-answers.ts";
import { LOST_SETTLE_ANSWERS, NO_VERDICTS, UNHEARD_SETTLE_REQUESTS } from "./facilitator-faults.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { type PaidGateway, type Payment, SET_UPS, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(() => startPaidParts({ confirmationTimeoutMs: 500 }));
const withRpc = startBeforeAll(() =>
  startPaidGateway({ parts, setUp: "rpc_url", facilitatorTimeoutSecs: 1 }),
);
const withoutRpc = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "no rpc_url",
    facilitatorTimeoutSecs: 1,
    // The facilitator is not asked again while it is still at work for others.
    settlementPeriods: { roundMs: 1_000, firstDelayMs: 1_000 },
  }),
);
afterEach(async () => {
  withRpc.facilitatorProxy.clear();
  withoutRpc.facilitatorProxy.clear();
  await parts.anvil.client.setAutomine(true);
});

describe("Facilitator: it settled, but its answer is lost or wrong", () => {
  it.each(Object.entries(LOST_SETTLE_ANSWERS))(
    "%s → with rpc_url the chain shows the payment: 202, one settle call, one job",
    async (what, fault) => {
      const payment = await withRpc.sign();
      const expectChanges = await watchLedger(parts, withRpc);
      withRpc.facilitatorProxy.add({ path: "/settle", fault });
      const first = await withRpc.send(payment, { body: what });
      expect(first).toMatchObject(ACCEPTED);
      expect(await withRpc.send(payment, { body: what })).toEqual(first);
      await withRpc.waitForJobs(what);
      await expectChanges(ONE_PAID_JOB);
    },
  );
});

describe("Facilitator: the settlement request never arrived", () => {
  it.each(Object.entries(UNHEARD_SETTLE_REQUESTS))(
    "%s → without rpc_url: 503, then settlement is requested again, and the resend gets 202 with one job",
    async (what, fault) => {
      const payment = await withoutRpc.sign();
      const expectChanges = await watchLedger(parts, withoutRpc);
      withoutRpc.facilitatorProxy.add({ path: "/settle", times: 1, when: carries(payment), fault });
      const callId = await expectUndecided(withoutRpc, payment, what);
      expect(await withoutRpc.sendUntilDecided(payment, { body: what })).toMatchObject({
        ...ACCEPTED,
        call_id: callId,
      });
      await withoutRpc.waitForJobs(what);
      await expectChanges({
        ...ONE_PAID_JOB,
        settleCalls: 2,
      });
    },
  );

  it("With rpc_url: 503, no job; unused past validBefore → settlement_failed, and never settled later", async () => {
    const faults = Object.entries(UNHEARD_SETTLE_REQUESTS);
    const payments = await Promise.all(faults.map(() => withRpc.sign()));
    const expectChanges = await watchLedger(parts, withRpc);
    for (const [index, [, fault]] of faults.entries()) {
      const payment = payments[index] as Payment;
      withRpc.facilitatorProxy.add({ path: "/settle", when: carries(payment), times: 1, fault });
    }
    const answers = await Promise.all(payments.map((payment) => withRpc.send(payment)));
    expect(answers).toEqual(faults.map(() => UNDECIDED));
    await parts.passTime(301);
    for (const payment of payments) {
      expect(await withRpc.sendUntilDecided(payment)).toMatchObject(FAILED);
      expect(await withRpc.send(payment)).toMatchObject(FAILED);
    }
    const count = payments.length;
    await expectChanges({ verifyCalls: count, settleCalls: count, payments: { failed: count } });
  });
});

describe("Facilitator: it lies", () => {
  const lies = {
    "a transaction that does not exist": async () => `0x${"11".repeat(32)}`,
    "the transaction of another payment": async () => {
      const other = await withRpc.send(await withRpc.sign(), { body: "the other payment" });
      await withRpc.waitForJobs("the other payment");
      return other.settlement?.transaction;
    },
  };
  it.each(Object.entries(lies))(
    "Says settled but moved nothing, naming %s → no job with rpc_url",
    async (_what, name) => {
      const transaction = await name();
      const payment = await withRpc.sign();
      const { from: payer } = payment.signed.authorization;
      const expectChanges = await watchLedger(parts, withRpc);
      const body = { success: true, transaction, payer, network: "eip155:84532" };
      withRpc.facilitatorProxy.add({
        path: "/settle",
        times: 1,
        fault: { kind: "answer", status: 200, body },
      });
      expect(await withRpc.send(payment)).toEqual(UNDECIDED);
      expect(withRpc.journal.paymentOf(payment.signed)?.state).toBe("intent");
      await parts.passTime(301);
      expect(await withRpc.sendUntilDecided(payment)).toMatchObject(FAILED);
      await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
      expect(await parts.usdc.authorizationState(payer, payment.signed.authorization.nonce)).toBe(false);
    },
  );

  it("Verify says yes, settle says no → 503 while undecided; with rpc_url 402 settlement_failed once the authorization has expired", async () => {
    const payment = await withRpc.sign();
    const expectChanges = await watchLedger(parts, withRpc);
    const body = {
      success: false,
      errorReason: "insufficient_funds",
      transaction: "",
      network: "eip155:84532",
    };
    withRpc.facilitatorProxy.add({ path: "/settle", fault: { kind: "answer", status: 200, body } });
    expect(await withRpc.send(payment)).toEqual(UNDECIDED);
    expect(await withRpc.send(payment)).toEqual(UNDECIDED);
    await parts.passTime(301);
    expect(await withRpc.sendUntilDecided(payment)).toMatchObject(FAILED);
    await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
  });
});

describe("Facilitator: the transaction is not mined yet", () => {
  it.each(["settlement_pending", "a time-out after broadcasting"])(
    "%s → 503, then 202 on the resend with the same call_id once the chain shows it",
    async (what) => {
      const payment = await withRpc.sign();
      const expectChanges = await watchLedger(parts, withRpc);
      await parts.anvil.client.setAutomine(false);
      if (what !== "settlement_pending")
        withRpc.facilitatorProxy.add({ path: "/settle", fault: { kind: "delay-answer", ms: 5_000 } });
      const callId = await expectUndecided(withRpc, payment, what);
      expect(await withRpc.send(payment, { body: what })).toEqual(UNDECIDED);
      expect(withRpc.jobsWith(what)).toEqual([]);
      await parts.anvil.client.mine({ blocks: 1 });
      expect(await withRpc.sendUntilDecided(payment, { body: what })).toMatchObject({
        ...ACCEPTED,
        call_id: callId,
      });
      await withRpc.waitForJobs(what);
      await expectChanges(ONE_PAID_JOB);
    },
  );

  it("settlement_pending, then success → without rpc_url settlement is requested again: 202 with one job", async () => {
    const body = "pending, then success";
    const payment = await withoutRpc.sign();
    await parts.anvil.client.setAutomine(false);
    const callId = await expectUndecided(withoutRpc, payment, body);
    await parts.anvil.client.mine({ blocks: 1 });
    await parts.anvil.client.setAutomine(true);
    expect(await withoutRpc.sendUntilDecided(payment, { body })).toMatchObject({
      ...ACCEPTED,
      call_id: callId,
    });
    expect(await withoutRpc.waitForJobs(body)).toHaveLength(1);
  });

  it("settlement_pending, then revert, because the payer's cancellation was mined first → 402 settlement_failed", async () => {
    const payment = await withRpc.sign();
    const expectChanges = await watchLedger(parts, withRpc);
    await parts.anvil.client.setAutomine(false);
    await expectUndecided(withRpc, payment, "cancelled while pending");
    await parts.usdc.cancelAuthorization(accounts.payer, payment.signed.authorization.nonce, {
      beforePending: true,
    });
    expect(await withRpc.sendUntilDecided(payment, { body: "cancelled while pending" })).toMatchObject(
      FAILED,
    );
    await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
  });
});

describe.each(SET_UPS)("Facilitator: no verdict, with %s", (setUp) => {
  const gateway = () => (setUp === "rpc_url" ? withRpc : withoutRpc);

  it.each(Object.entries(NO_VERDICTS))(
    "%s → 503 facilitator_unavailable, nothing written, no settle",
    async (_what, fault) => {
      const payment = await gateway().sign();
      const expectChanges = await watchLedger(parts, gateway());
      const verifies = gateway().facilitatorProxy.count("/verify");
      gateway().facilitatorProxy.add({ path: "/verify", fault });
      expect(await gateway().send(payment)).toEqual(UNAVAILABLE);
      await expectChanges({ verifyCalls: gateway().facilitatorProxy.count("/verify") - verifies });
    },
  );

  it.each([
    ["isValid false", { isValid: false, invalidReason: "invalid_exact_evm_signature" }],
    ["another payer than the payload's", { isValid: true, payer: accounts.stranger.address }],
  ])("%s → 402 payment_invalid, nothing written, no settle", async (_what, body) => {
    const payment = await gateway().sign();
    const expectChanges = await watchLedger(parts, gateway());
    gateway().facilitatorProxy.add({ path: "/verify", fault: { kind: "answer", status: 200, body } });
    expect(await gateway().send(payment)).toEqual({
      status: 402,
      code: "payment_invalid",
      charged: false,
      retryable: false,
    });
    await expectChanges({ verifyCalls: 1 });
  });
});

it("Facilitator down at start → serve starts, payments get 503, and the same payment buys once it is up", async () => {
  await withRpc.facilitatorProxy.goDown();
  await withRpc.restart();
  const payment = await withRpc.sign();
  const expectChanges = await watchLedger(parts, withRpc);
  expect(await withRpc.send(payment, { body: "down" })).toEqual(UNAVAILABLE);
  await withRpc.facilitatorProxy.comeBack();
  expect(await withRpc.send(payment, { body: "down" })).toMatchObject(ACCEPTED);
  await withRpc.waitForJobs("down");
  await expectChanges(ONE_PAID_JOB);
});

// Last, because it leaves payments behind that jobgate keeps trying to settle.
it("Facilitator: it settled, but its answer is lost → without rpc_url 503 settlement_unknown, no job, and the facilitator's later no proves nothing", async () => {
  const payments = await Promise.all(Object.keys(LOST_SETTLE_ANSWERS).map(() => withoutRpc.sign()));
  const expectChanges = await watchLedger(parts, withoutRpc);
  const settledBefore = withoutRpc.journal.totals().payments.settled;
  for (const [index, fault] of Object.values(LOST_SETTLE_ANSWERS).entries()) {
    const nonce = payments[index]?.signed.authorization.nonce as string;
    const when = ({ body }: { body: Buffer }) => body.includes(nonce);
    withoutRpc.facilitatorProxy.add({ path: "/settle", when, times: 1, fault });
  }
  const before = withoutRpc.facilitatorProxy.count("/settle");
  // A few at a time, so that none is verified or settled too late.
  const fewAtATime = pLimit(4);
  const answers = await fewAtATime.map(payments, (payment) => withoutRpc.send(payment));
  expect(answers).toEqual(payments.map(() => UNDECIDED));

  // Each is asked for again, and the facilitator says no, because the nonce is used.
  await expect
    .poll(() => withoutRpc.facilitatorProxy.count("/settle"), { timeout: 10_000 })
    .toBeGreaterThanOrEqual(before + 2 * payments.length);
  expect(await withoutRpc.send(payments[0] as Payment)).toEqual(UNDECIDED);
  const count = payments.length;
  // A facilitator short of time may not have settled one at first: asked again it says yes, and that one has its job.
  await vi.waitFor(
    async () => {
      const late = withoutRpc.journal.totals().payments.settled - settledBefore;
      expect(late).toBeLessThan(count / 2);
      await expectChanges({
        verifyCalls: count,
        // The facilitator is asked again at any time.
        settleCalls: expect.any(Number),
        received: AMOUNT * BigInt(count),
        jobs: late,
        payments: { intent: count - late, ...(late > 0 ? { settled: late } : {}) },
      });
    },
    { timeout: 20_000 },
  );
});

function carries({ signed }: Payment): (request: { body: Buffer }) => boolean {
  return ({ body }) => body.includes(signed.authorization.nonce);
}

/** @returns the call id that waits for the payment */
async function expectUndecided(gateway: PaidGateway, payment: Payment, body: string): Promise<number> {
  expect(await gateway.send(payment, { body })).toEqual(UNDECIDED);
  const record = gateway.journal.paymentOf(payment.signed);
  expect(record?.state).toBe("intent");
  return record?.callId as number;
}
