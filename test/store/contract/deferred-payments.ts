import { describe, expect, test } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { LOSS_MS } from "../../../src/store/contract/payment-journal.ts";
import type { Charge, Lease } from "../../../src/store/contract/work-queue.ts";
import { AUTHORIZATION_ENDED } from "../../../src/store/rules/charges.ts";
import {
  claimOne,
  claimRequest,
  LEASE_MS,
  paidCall,
  paidId,
  paymentIntent,
  START_MS,
} from "../store-fixtures.ts";
import { expectBalance, type Given, idsOf } from "./given.ts";

const listPaidCalls = async ({ store }: Given) =>
  idsOf((await store.listCalls({ limit: 10, origin: "x402" })).items);

const CEILING = "1001";
const RESULT = { body: Buffer.from("42"), contentType: "text/plain" };

export function describeDeferredPayments(given: Given): void {
  describe("deferred payments", () => {
    test("Their JobCalls are ready at once, with one write", async () => {
      const callId = await begin(given, 1);
      expect(given.batches).toHaveLength(1);
      expect(await given.store.findPayment(deferred(1).key)).toMatchObject({
        state: "authorized",
        amount: CEILING,
        ceiling: CEILING,
      });
      const other = await paidId(given.store, 2);
      expect(await given.store.ceilings([callId, 99, other])).toEqual([CEILING, undefined, null]);
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "queued",
        charge: { state: "authorized", ceiling: CEILING, symbol: "USDC" },
      });
      const { calls } = await given.store.claim(claimRequest());
      expect(calls).toMatchObject([
        { callId, attempt: 1, deferred: true },
        { callId: other, deferred: false },
      ]);
      expect(await given.store.totals()).toMatchObject({
        deferred: { authorized: 1 },
        paidCalls: { leased: 2 },
      });
      await expectBalance(given.store);
    });

    test("A claim in the batch that accepts a deferred payment knows that it is deferred", async () => {
      const [, { calls }] = await Promise.all([begin(given, 1), given.store.claim(claimRequest())]);
      expect(calls).toMatchObject([{ deferred: true }]);
    });

    test.each<[string, Charge | undefined, string]>([
      ["the whole ceiling without a charge", undefined, CEILING],
      ["exact units", { units: "1" }, "1"],
      ["basis points, rounded down", { basisPoints: 5_000 }, "500"],
      ["never more than the ceiling", { units: "1002" }, CEILING],
    ])("An ack charges %s", async (_, charge, amount) => {
      const callId = await begin(given, 1);
      const lease = await claimOne(given.store);
      expect(await given.store.ack(lease, RESULT, charge)).toEqual({
        outcome: "done",
        charge: decided("settling", amount),
      });
      expect(await given.store.ack(lease, RESULT, { units: "7" })).toEqual({ outcome: "not_found" });
      expect(await given.store.findPayment(deferred(1).key)).toMatchObject({
        state: "settling",
        amount,
        ceiling: CEILING,
      });
      expect(await given.store.listUndecided({ state: "settling", limit: 9 })).toMatchObject([
        { callId, amount },
      ]);
      // The result waits for the money.
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "running",
        charge: { state: "settling", amount },
      });
      await expectBalance(given.store);

      await given.store.settlePayment(deferred(1).key, JSON.stringify({ transaction: "0xab" }));
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "succeeded",
        charge: { state: "settled", amount, transaction: "0xab" },
      });
      expect(await given.store.revenue({ since: 0, bucketMs: 3_600_000 })).toMatchObject([
        { amount: BigInt(amount) },
      ]);
      expect(await given.store.totals()).toMatchObject({ deferred: { settled: 1 }, paidCalls: { done: 1 } });
      await expectBalance(given.store);
    });

    test("Acks in bulk charge each payment its own amount", async () => {
      for (const number of [1, 2, 3, 4]) await begin(given, number);
      const exact = await paidId(given.store, 5);
      const { calls } = await given.store.claim(claimRequest());
      const acked = await Promise.all(
        calls.map((lease, index) => given.store.ack(lease, RESULT, { units: String(index) })),
      );
      expect(acked).toEqual([
        ...[0, 1, 2, 3].map((amount) => ({
          outcome: "done",
          charge: decided(amount === 0 ? "released" : "settling", String(amount)),
        })),
        { outcome: "done" },
      ]);
      for (const [index, number] of [1, 2, 3, 4].entries()) {
        expect(await given.store.findPayment(deferred(number).key)).toMatchObject({
          state: index === 0 ? "released" : "settling",
          amount: String(index),
        });
      }
      expect(await given.store.findCall(exact)).toMatchObject({ state: "succeeded" });
      expect(await listPaidCalls(given)).toHaveLength(5);
      expect(await given.store.findPayment(paymentIntent(5).key)).toMatchObject({
        state: "settled",
        amount: "3264000",
      });
      await expectBalance(given.store);
    });

    test("A charge of nothing releases the payment, and the result is there", async () => {
      const callId = await begin(given, 1);
      await given.store.ack(await claimOne(given.store), RESULT, { units: "0" });
      expect(await given.store.findPayment(deferred(1).key)).toMatchObject({
        state: "released",
        amount: "0",
      });
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "succeeded",
        charge: { state: "released" },
      });
      expect(await given.store.settlePayment(deferred(1).key, "{}")).toEqual({ kind: "not_open" });
      await expectBalance(given.store);
    });

    test.each([304, 404, 500])(
      "A result with the status %s charges nothing, whatever charge its runner names",
      async (status) => {
        const callId = await begin(given, 1);
        const acked = await given.store.ack(
          await claimOne(given.store),
          { ...RESULT, status },
          { units: "7" },
        );
        expect(acked).toMatchObject({ outcome: "done", charge: { state: "released", amount: "0" } });
        expect(await given.store.findPayment(deferred(1).key)).toMatchObject({
          state: "released",
          amount: "0",
        });
        expect(await given.store.findCall(callId)).toMatchObject({
          state: status < 400 ? "succeeded" : "failed",
          status,
          charge: { state: "released" },
        });
        expect(await given.store.findResult(callId)).toMatchObject({ status });
        expect(await listPaidCalls(given)).toEqual([callId]);
        await expectBalance(given.store);
      },
    );

    test("A dead letter charges nothing, and is not retried", async () => {
      const callId = await begin(given, 1);
      const failed = await given.store.fail(await claimOne(given.store), "no ink");
      expect(failed.deadLettered).toMatchObject({ callId, released: decided("released", "0") });
      expect(await given.store.findPayment(deferred(1).key)).toMatchObject({
        state: "released",
        reason: "no ink",
      });
      expect(await given.store.totals()).toMatchObject({ uncharged: 1, kept: 0, deferred: { released: 1 } });
      await expectBalance(given.store);
      expect(await given.store.retryDeadLetter(callId)).toBe("buyer_paid_back");
      expect(await given.store.findPayment(deferred(1).key)).toMatchObject({
        state: "released",
        amount: "0",
      });
      expect(await given.store.totals()).toMatchObject({ uncharged: 1 });
      await expectBalance(given.store);
    });

    test("A charge that cannot be collected fails the call, and its name can be used again", async () => {
      const callId = await begin(given, 1, { purchaseName: "order" });
      await given.store.ack(await claimOne(given.store), RESULT);
      await given.store.failPayment(deferred(1).key, "{}", "drained");
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "failed",
        charge: { state: "failed" },
      });
      expect(await given.store.settlePayment(deferred(1).key, "{}")).toEqual({ kind: "not_open" });
      expect(
        await given.store.beginPayment(deferred(2, { purchaseName: "order" }), paidCall()),
      ).toMatchObject({
        kind: "begun",
      });
      await expectBalance(given.store);
    });

    test("A job that is charged nothing frees its name, and is still found by its payment", async () => {
      const callId = await begin(given, 1, { purchaseName: "order" });
      await given.store.ack(await claimOne(given.store), RESULT, { units: "0" });
      expect(
        await given.store.beginPayment(deferred(1, { purchaseName: "order" }), paidCall()),
      ).toMatchObject({
        kind: "payment_known",
        record: { callId },
      });
      const again = await begin(given, 2, { purchaseName: "order" });
      expect(
        await given.store.beginPayment(deferred(3, { purchaseName: "order" }), paidCall()),
      ).toMatchObject({
        kind: "payment_known",
        record: { callId: again },
      });
      await expectBalance(given.store);
    });

    test("An unresolved charge can be closed either way", async () => {
      for (const [number, as] of [
        [1, "paid"],
        [2, "not_paid"],
      ] as const) {
        const callId = await begin(given, number);
        await given.store.ack(await claimOne(given.store), RESULT);
        await given.store.leavePaymentUnresolved(deferred(number).key, "unknown");
        expect(await given.store.findCall(callId)).toMatchObject({ state: "running" });
        const closed = await given.store.closePayment(deferred(number).key, { as, by: "ada", note: "seen" });
        expect(closed).toMatchObject({ kind: "closed" });
        expect(await given.store.findCall(callId)).toMatchObject({
          state: as === "paid" ? "succeeded" : "failed",
        });
      }
      await expectBalance(given.store);
    });

    test("A job that runs when its authorization ends is charged what its runner reported, and goes on", async () => {
      const callId = await begin(given, 1, { minCharge: "10" });
      const lease = await claimOne(given.store);
      await given.store.extend(lease, LEASE_MS, undefined, { basisPoints: 2_000 });
      await given.store.extend(lease, LEASE_MS, { percent: 5, text: "on it" });
      expect(await given.store.findCallDetails(callId)).toMatchObject({ chargeSoFar: "200" });
      const endsAt = deferred(1).validBefore;
      expect(await given.store.listEndingAuthorizations(endsAt, 9)).toEqual([]);
      expect(await given.store.listEndingAuthorizations(endsAt + 1, 9)).toEqual([
        { callId, transferMethod: deferred(1).transferMethod, validBefore: endsAt },
      ]);
      expect(await given.store.endAuthorization(callId)).toEqual({
        kind: "charged",
        charge: decided("settling", "200"),
      });
      expect(await given.store.endAuthorization(callId)).toEqual({ kind: "not_open" });
      expect(await given.store.listEndingAuthorizations(endsAt + 1, 9)).toEqual([]);
      await given.store.settlePayment(deferred(1).key, "{}");
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "running",
        charge: { amount: "200" },
      });
      expect(await given.store.ack(lease, RESULT)).toEqual({ outcome: "done" });
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "succeeded",
        charge: { amount: "200" },
      });
      await expectBalance(given.store);
    });

    test("A running job without a report is charged the least charge, and ends without one, so that its name is free", async () => {
      const first = await begin(given, 1, { minCharge: "10" });
      const second = await begin(given, 2);
      const { calls } = await given.store.claim(claimRequest());
      expect(await given.store.endAuthorization(first)).toMatchObject({ charge: { amount: "10" } });
      const released = decided("released", "0");
      expect(await given.store.endAuthorization(second)).toMatchObject({
        kind: "dead_lettered",
        deadLettered: { callId: second, reason: AUTHORIZATION_ENDED, released },
      });
      const lease = calls.find(({ callId }) => callId === second) as Lease;
      expect(await given.store.ack(lease, RESULT)).toEqual({ outcome: "lease_lost" });
      expect(await given.store.findPayment(deferred(2).key)).toMatchObject({ state: "released" });
      await expectBalance(given.store);
    });

    test("A job that is charged after it ran is charged its whole price once it succeeded, and no runner names a charge", async () => {
      const callId = await begin(given, 1, { charge: "after", transferMethod: "eip3009" });
      expect(await given.store.findPayment(deferred(1).key)).toMatchObject({
        state: "authorized",
        charge: "after",
      });
      expect(await given.store.ceilings([callId])).toEqual([null]);
      expect(await given.store.ack(await claimOne(given.store), RESULT)).toEqual({
        outcome: "done",
        charge: decided("settling", CEILING),
      });
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "running",
        charge: { state: "settling", isAwaited: true },
      });
      await given.store.settlePayment(deferred(1).key, "{}");
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "succeeded",
        charge: { amount: CEILING },
      });
      await expectBalance(given.store);
    });

    test("A job that is charged after it ran, and still runs when its authorization ends, is lost to its runner", async () => {
      const callId = await begin(given, 1, { charge: "after" });
      const lease = await claimOne(given.store);
      const released = decided("released", "0");
      const deadLettered = { callId, reason: AUTHORIZATION_ENDED, deadAt: given.now, released };
      expect(await given.store.endAuthorization(callId)).toEqual({ kind: "dead_lettered", deadLettered });
      expect(await given.store.ack(lease, RESULT)).toEqual({ outcome: "lease_lost" });
      expect(await given.store.retryDeadLetter(callId)).toBe("buyer_paid_back");
      expect(await given.store.findPayment(deferred(1).key)).toMatchObject({
        state: "released",
        amount: "0",
      });
      await expectBalance(given.store);
    });

    test("A payer has a loss for a day once a charge after a job failed", async () => {
      const { payer } = deferred(1).key;
      await begin(given, 1, { charge: "after" });
      await begin(given, 2, { charge: "before" });
      await given.store.failPayment(deferred(2).key, "{}", "reverted");
      await given.store.ack(await claimOne(given.store), RESULT);
      expect(await given.store.hasLoss(payer)).toBe(false);
      await given.store.failPayment(deferred(1).key, "{}", "drained");
      expect(await given.store.hasLoss(payer.toUpperCase().replace("0X", "0x"))).toBe(true);
      expect(await given.store.hasLoss(`0x${"9".repeat(40)}`)).toBe(false);
      given.now += LOSS_MS;
      expect(await given.store.hasLoss(payer)).toBe(false);
    });

    test("A job that does not run when its authorization ends becomes a dead letter, and is not charged", async () => {
      const callId = await begin(given, 1, { minCharge: "10" });
      const released = decided("released", "0");
      const deadLettered = { callId, reason: AUTHORIZATION_ENDED, deadAt: given.now, released };
      expect(await given.store.endAuthorization(callId)).toEqual({ kind: "dead_lettered", deadLettered });
      expect(await given.store.findPayment(deferred(1).key)).toMatchObject({
        state: "released",
        amount: "0",
      });
      await expectBalance(given.store);
    });

    test("Whatever makes a dead letter says which payment it released, once", async () => {
      const used = await begin(given, 1);
      const exact = await paidId(given.store, 2);
      await given.store.claim(claimRequest());
      given.now += LEASE_MS + 1;
      const released = decided("released", "0");
      const expired = await given.store.expireLeases(1);
      expect(expired).toHaveLength(2);
      expect(expired).toMatchObject([{ callId: used, released }, { callId: exact }]);
      expect(expired[1]).not.toHaveProperty("released");

      const next = await begin(given, 3);
      const retry = { backoff: { baseMs: 1, maxMs: 1 }, delayMs: 0, maxAttempts: 9, reason: "" };
      await given.store.retry(await claimOne(given.store), retry);
      const { deadLettered } = await given.store.claim(claimRequest({ maxAttempts: 1 }));
      expect(deadLettered).toMatchObject([{ callId: next, released }]);
      await expectBalance(given.store);
    });

    test("A payer's open deferred payments are bounded at once, and other payers' payments are not", async () => {
      const limits = { maxUndecided: 9, maxOpenPerPayer: 2 };
      for (const number of [1, 2]) await begin(given, number);
      expect(await given.store.beginPayment(deferred(3), paidCall(), limits)).toEqual({
        kind: "too_many_open_payments",
      });
      await given.store.ack(await claimOne(given.store, { limit: 1 }), RESULT, { units: "0" });
      expect(await given.store.beginPayment(deferred(3), paidCall(), limits)).toMatchObject({
        kind: "begun",
      });
      const { key } = deferred(4);
      const other = deferred(4, { key: { ...key, payer: "0x70997970c51812dc3a010c7d01b50e0d17dc79c8" } });
      expect(await given.store.beginPayment(other, paidCall(), limits)).toMatchObject({ kind: "begun" });
    });

    test("Of deferred payments that one payer opens at once, as many begin as one payer may have open", async () => {
      const limits = { maxUndecided: 9, maxOpenPerPayer: 2 };
      const begun = [1, 2, 3].map((number) => given.store.beginPayment(deferred(number), paidCall(), limits));
      expect((await Promise.all(begun)).map(({ kind }) => kind)).toEqual([
        "begun",
        "begun",
        "too_many_open_payments",
      ]);
    });

    test("Of ceilings that one payer opens at once, those begin that the funds cover together", async () => {
      const limits = { maxUndecided: 9, maxOpenPerPayer: 9, funds: "2500" };
      const kindsOf = async (numbers: readonly number[]) => {
        const begun = numbers.map((number) => given.store.beginPayment(deferred(number), paidCall(), limits));
        return (await Promise.all(begun)).map(({ kind }) => kind).sort();
      };
      expect(await kindsOf([1, 2, 3])).toEqual(["begun", "begun", "insufficient_funds"]);
      expect(await kindsOf([4])).toEqual(["insufficient_funds"]);
      await given.store.ack(await claimOne(given.store, { limit: 1 }), RESULT, { units: "400" });
      expect(await kindsOf([5])).toEqual(["begun"]);
      expect(await kindsOf([6])).toEqual(["insufficient_funds"]);
      const other = deferred(7, { key: { ...deferred(7).key, asset: `0x${"7".repeat(40)}` } });
      expect(await given.store.beginPayment(other, paidCall(), limits)).toMatchObject({ kind: "begun" });
      await expectBalance(given.store);
    });

    test("What was settled since the funds were read is not there for the next ceiling", async () => {
      await begin(given, 1);
      await given.store.ack(await claimOne(given.store), RESULT, { units: "400" });
      await given.store.settlePayment(deferred(1).key, "{}");
      given.now += 1_000;
      const kindWith = async (number: number, fundsAgeMs: number, funds: string) => {
        const limits = { maxUndecided: 9, maxOpenPerPayer: 9, funds, fundsAgeMs };
        return (await given.store.beginPayment(deferred(number), paidCall(), limits)).kind;
      };
      const funds = String(Number(CEILING) + 399);
      expect(await kindWith(2, 1_500, funds)).toBe("insufficient_funds");
      expect(await kindWith(3, 500, funds)).toBe("begun");
      const fundsOfBoth = String(2 * Number(CEILING) + 400);
      expect(await kindWith(4, 1_500, fundsOfBoth)).toBe("begun");
      await expectBalance(given.store);
    });

    test("A charge that moved another amount is settled and booked with it", async () => {
      const callId = await begin(given, 1);
      await given.store.ack(await claimOne(given.store), RESULT, { units: "500" });
      const { key } = deferred(1);
      expect(await given.store.settlePayment(key, "{}", "7", "40")).toMatchObject({
        kind: "settled",
        changed: true,
        record: { amount: "40", ceiling: CEILING },
      });
      expect(await given.store.findPayment(key)).toMatchObject({ state: "settled", amount: "40" });
      expect(await given.store.findCall(callId)).toMatchObject({
        charge: { state: "settled", amount: "40" },
      });
      await expectBalance(given.store);
    });

    test("A result is kept until its charge is decided, and as long as others from then on", async () => {
      const day = 86_400_000;
      const callId = await begin(given, 1);
      await given.store.ack(await claimOne(given.store), RESULT);
      await given.store.leavePaymentUnresolved(deferred(1).key, "unknown");
      const prune = () => given.store.prune({ kind: "results", ageMs: day, after: 0 });
      given.now += 9 * day;
      expect(await prune()).toEqual({ removed: 0 });
      await given.store.settlePayment(deferred(1).key, "{}");
      given.now += day - 1;
      expect(await prune()).toEqual({ removed: 0 });
      expect(await given.store.findResult(callId)).toMatchObject({ contentType: "text/plain" });
      given.now += 2;
      expect(await prune()).toEqual({ removed: 1 });
    });

    test("Pruned payments are still counted", async () => {
      for (const number of [1, 2, 3]) await begin(given, number);
      const { calls } = await given.store.claim(claimRequest());
      const [charged, free, failed] = calls;
      if (!charged || !free || !failed) throw new Error("expected three calls");
      await given.store.ack(charged, RESULT);
      await given.store.settlePayment(deferred(1).key, "{}");
      await given.store.ack(free, RESULT, { units: "0" });
      await given.store.fail(failed, "no ink");
      await given.store.dropDeadLetter(failed.callId);
      const before = await given.store.totals();
      given.now = START_MS + 90 * 86_400_000;
      await given.store.endWatches();
      for (const kind of ["results", "calls", "payments"] as const) {
        const { removed } = await given.store.prune({ kind, ageMs: 86_400_000, after: 0 });
        expect(removed).toBe(3);
      }
      expect(await given.store.totals()).toEqual(before);
      await expectBalance(given.store);
    });
  });
}

/** Decision about the charge of a deferred payment. */
function decided(state: "settling" | "released", amount: string) {
  const { network, asset, payer } = deferred(1).key;
  return { state, amount, network, asset, payer, symbol: "USDC" };
}

function deferred(number: number, overrides: Partial<PaymentIntent> = {}): PaymentIntent {
  return paymentIntent(number, {
    amount: CEILING,
    charge: "used",
    transferMethod: "permit2",
    ...overrides,
  });
}

async function begin(given: Given, number: number, overrides: Partial<PaymentIntent> = {}): Promise<number> {
  const begun = await given.store.beginPayment(deferred(number, overrides), paidCall());
  if (begun.kind !== "begun") throw new Error(`expected begun, got ${begun.kind}`);
  return begun.callId;
}
