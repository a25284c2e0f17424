import pLimit from "p-limit";
import { afterEach, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { eventually } from "../helpers/eventually.ts";
import { startFacilitator } from "../helpers/facilitator.ts";
import type { Fault } from "../helpers/fault.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED, FAILED, UNAVAILABLE, UNDECIDED } from "./expected-answers.ts";
import {
  UNHEARD_SETTLE_REQUESTS as ALL_UNHEARD,
  LOST_SETTLE_ANSWERS,
  NO_VERDICTS,
} from "./facilitator-faults.ts";
import { ONE_PAID_JOB, paidJobs, watchLedger } from "./ledger.ts";
import { type PaidGateway, type Payment, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

/**
 * Faults that differ for the gateway: in the connection, in the time, and in what the answer says. Every answer without a
 * verdict is in `test/x402/facilitators/remote-facilitator.test.ts`.
 */
const LOST_ANSWERS = only(LOST_SETTLE_ANSWERS, [
  "status 500 with a body",
  "no answer at all",
  "no answer until the time-out",
  "success false",
  "another payer than the payload's",
  "another network than the payload's",
]);
const MISSING_VERDICTS = only(NO_VERDICTS, [
  "HTML",
  "a connection that is cut",
  "no answer until the time-out",
]);
const UNHEARD_SETTLE_REQUESTS = only(ALL_UNHEARD, [
  "a connection that is cut",
  "settlement_pending, which it forgets",
]);

const parts = startBeforeAll(startPaidParts);
/** Waits only shortly for a transaction to be mined. */
const impatient = startBeforeAll(() =>
  startFacilitator({
    anvil: parts.anvil,
    privateKey: accounts.caller.privateKey,
    confirmationTimeoutMs: 1_000,
  }),
);
const withRpc = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    facilitatorTimeoutSecs: 60,
    periods: { pendingLookMs: 20, confirmationTimeoutMs: 300 },
  }),
);
// The facilitator is not asked again while it is still at work for others.
const periods = { roundMs: 1_000, firstDelayMs: 1_000 };
const withoutRpc = startBeforeAll(() =>
  startPaidGateway({ parts, setUp: "no rpc_url", facilitatorTimeoutSecs: 60, periods }),
);
// These two give a facilitator that stalls little time, and may give up on one that is only slow.
const hastyWithRpc = startBeforeAll(() =>
  startPaidGateway({ parts, setUp: "rpc_url", facilitatorTimeoutSecs: 1 }),
);
const hastyWithoutRpc = startBeforeAll(() =>
  startPaidGateway({ parts, setUp: "no rpc_url", facilitatorTimeoutSecs: 3, periods }),
);
afterEach(async () => {
  for (const gateway of [withRpc, withoutRpc, hastyWithRpc, hastyWithoutRpc])
    gateway.facilitatorProxy.clear();
  await parts.anvil.client.setAutomine(true);
});

describe("Facilitator: it settled, but its answer is lost or wrong", () => {
  it.each(Object.entries(LOST_ANSWERS))(
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

  it("With rpc_url 202 and one job, as soon as the chain shows the payment; a stop does not wait for the answer", async () => {
    const body = "answered never";
    const payment = await withRpc.sign();
    const expectChanges = await watchLedger(parts, withRpc);
    const change = () => new Promise<never>(() => undefined);
    withRpc.facilitatorProxy.add({ path: "/settle", fault: { kind: "change", change } });
    const answer = await withRpc.send(payment, { body });
    expect(answer).toMatchObject(ACCEPTED);
    expect(await withRpc.send(payment, { body })).toEqual(answer);
    await withRpc.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
    await withRpc.restart();
    expect(await withRpc.send(payment, { body })).toEqual(answer);
  });
});

describe("Facilitator: the settlement request never arrived", () => {
  it("Without rpc_url: 503, then settlement is requested again, and the resend gets 202 with one job", async () => {
    const expectChanges = await watchLedger(parts, withoutRpc);
    const signed = await signForEach(withoutRpc, "/settle", UNHEARD_SETTLE_REQUESTS);
    await Promise.all(
      signed.map(async ({ what, payment }) => {
        const callId = await expectUndecided(withoutRpc, payment, what);
        const answer = await withoutRpc.sendUntilDecided(payment, { body: what });
        expect(answer, what).toMatchObject({ ...ACCEPTED, call_id: callId });
        await withoutRpc.waitForJobs(what);
      }),
    );
    // The facilitator is asked again at any time.
    await expectChanges({ ...paidJobs(signed.length), settleCalls: expect.any(Number) });
  });

  it("With rpc_url: 503, no job; unused past validBefore → settlement_failed, and never settled later", async () => {
    const expectChanges = await watchLedger(parts, withRpc);
    const signed = await signForEach(withRpc, "/settle", UNHEARD_SETTLE_REQUESTS);
    const payments = signed.map(({ payment }) => payment);
    const answers = await Promise.all(payments.map((payment) => withRpc.send(payment)));
    expect(answers).toEqual(payments.map(() => UNDECIDED));
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
      expect((await withRpc.journal.paymentOf(payment.signed))?.state).toBe("intent");
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
  const pending = (): Fault => ({ kind: "reroute", target: impatient.url });

  it.each(["settlement_pending", "a time-out after broadcasting"])(
    "%s → 503, then 202 on the resend with the same call_id once the chain shows it",
    async (what) => {
      const gateway = what === "settlement_pending" ? withRpc : hastyWithRpc;
      const payment = await gateway.sign();
      const expectChanges = await watchLedger(parts, gateway);
      await parts.anvil.client.setAutomine(false);
      const fault = gateway === hastyWithRpc ? ({ kind: "no-answer" } as const) : pending();
      gateway.facilitatorProxy.add({ path: "/settle", fault });
      const callId = await expectUndecided(gateway, payment, what);
      expect(await gateway.send(payment, { body: what })).toEqual(UNDECIDED);
      expect(gateway.jobsWith(what)).toEqual([]);
      await expect.poll(poolSize).toBe(1);
      await parts.anvil.client.mine({ blocks: 1 });
      expect(await gateway.sendUntilDecided(payment, { body: what })).toMatchObject({
        ...ACCEPTED,
        call_id: callId,
      });
      await gateway.waitForJobs(what);
      await expectChanges({ ...ONE_PAID_JOB, verifyCalls: expect.any(Number) });
    },
  );

  it("settlement_pending, then success → without rpc_url settlement is requested again: 202 with one job", async () => {
    const body = "pending, then success";
    const payment = await withoutRpc.sign();
    await parts.anvil.client.setAutomine(false);
    withoutRpc.facilitatorProxy.add({ path: "/settle", fault: pending() });
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
    withRpc.facilitatorProxy.add({ path: "/settle", fault: pending() });
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

describe.each(["rpc_url", "no rpc_url"])("Facilitator: no verdict, with %s", (setUp) => {
  it("503 facilitator_unavailable, nothing written, no settle", async () => {
    const gateway = setUp === "rpc_url" ? hastyWithRpc : hastyWithoutRpc;
    const verifies = gateway.facilitatorProxy.count("/verify");
    const expectChanges = await watchLedger(parts, gateway);
    // Not once: it is asked again where a kept-alive connection may have been stale.
    const answers = Object.entries(MISSING_VERDICTS).map(async ([what, fault]) => {
      const payment = await gateway.sign();
      gateway.facilitatorProxy.add({ path: "/verify", when: carries(payment), fault });
      expect(await gateway.send(payment), what).toEqual(UNAVAILABLE);
    });
    await Promise.all(answers);
    await expectChanges({ verifyCalls: gateway.facilitatorProxy.count("/verify") - verifies });
  });

  it.each([
    ["isValid false", { isValid: false, invalidReason: "invalid_exact_evm_signature" }],
    ["another payer than the payload's", { isValid: true, payer: accounts.stranger.address }],
  ])("%s → 402 payment_invalid, nothing written, no settle", async (_what, body) => {
    const gateway = setUp === "rpc_url" ? withRpc : withoutRpc;
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    gateway.facilitatorProxy.add({ path: "/verify", fault: { kind: "answer", status: 200, body } });
    expect(await gateway.send(payment)).toEqual({
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
it("Facilitator: it settled, but its answer is lost → without rpc_url 503 settlement_unknown, no job, and the facilitator's later no proves nothing", {
  timeout: 90_000,
}, async () => {
  const gateway = hastyWithoutRpc;
  const expectChanges = await watchLedger(parts, gateway);
  const settledBefore = (await gateway.journal.totals()).payments.settled;
  const before = gateway.facilitatorProxy.count("/settle");
  const signed = await signForEach(gateway, "/settle", LOST_ANSWERS);
  const payments = signed.map(({ payment }) => payment);
  // A few at a time, so that none is verified or settled too late.
  await pLimit(4).map(signed, ({ payment, what }) => expectUndecided(gateway, payment, what));

  // Each is asked for again, and the facilitator says no, because the nonce is used.
  await expect
    .poll(() => gateway.facilitatorProxy.count("/settle"))
    .toBeGreaterThanOrEqual(before + 2 * payments.length);
  // A facilitator short of time may not have settled one at first: asked again it says yes, and that one has its job.
  await pLimit(4).map(signed, async ({ payment, what }) => {
    const answer = await gateway.send(payment, { body: what });
    if (answer.status === 202) expect(answer, what).toMatchObject(ACCEPTED);
    else expect(answer, what).toEqual(UNDECIDED);
  });
  const count = payments.length;
  await eventually(async () => {
    const late = (await gateway.journal.totals()).payments.settled - settledBefore;
    expect(late).toBeLessThan(count);
    await expectChanges({
      verifyCalls: expect.any(Number),
      // The facilitator is asked again at any time.
      settleCalls: expect.any(Number),
      received: AMOUNT * BigInt(count),
      jobs: late,
      payments: { intent: count - late, ...(late > 0 ? { settled: late } : {}) },
    });
  });
});

function only(
  faults: Readonly<Record<string, Fault>>,
  names: readonly string[],
): Readonly<Record<string, Fault>> {
  return Object.fromEntries(names.map((name) => [name, faults[name] as Fault]));
}

/** Signs a payment for each fault, which strikes the request for it once. */
async function signForEach(gateway: PaidGateway, path: string, faults: Readonly<Record<string, Fault>>) {
  return Promise.all(
    Object.entries(faults).map(async ([what, fault]) => {
      const payment = await gateway.sign();
      gateway.facilitatorProxy.add({ path, when: carries(payment), times: 1, fault });
      return { what, payment };
    }),
  );
}

function carries({ signed }: Payment): (request: { body: Buffer }) => boolean {
  return ({ body }) => body.includes(signed.authorization.nonce);
}

/** Transactions that wait to be mined. */
async function poolSize(): Promise<number> {
  return (await parts.anvil.client.getTxpoolStatus()).pending;
}

/** @returns the call id that waits for the payment */
async function expectUndecided(gateway: PaidGateway, payment: Payment, body: string): Promise<number> {
  // A hasty gateway may give up on the verification; then nothing is charged, and the client sends again.
  await eventually(async () => expect(await gateway.send(payment, { body })).toEqual(UNDECIDED));
  const record = await gateway.journal.paymentOf(payment.signed);
  expect(record?.state).toBe("intent");
  return record?.callId as number;
}
