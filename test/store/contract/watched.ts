import { describe, expect, test } from "vitest";
import type { PaymentClosing } from "../../../src/core/payment.ts";
import { WATCHED_MS, YOUNG_MS } from "../../../src/store/contract/payment-journal.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  oneTimeNonce,
  paidCall,
  paidId,
  paymentIntent,
  START_MS,
} from "../store-fixtures.ts";
import { expectBalance, type Given, idsOf, MAX_PENDING } from "./given.ts";

export function describeWatched(given: Given): void {
  const { key } = paymentIntent(1);
  const begin = (number: number, overrides: Parameters<typeof paymentIntent>[1] = {}) =>
    given.store.beginPayment(
      paymentIntent(number, overrides),
      paidCall({ serviceId: paymentIntent(number).serviceId, body: Buffer.from(`body ${number}`) }),
    );
  const fail = (number: number) => given.store.failPayment(paymentIntent(number).key, "{}", "not paid");
  const watched = async () => idsOf(await given.store.listUndecided({ state: "watched", limit: 100 }));

  async function unresolved(number: number): Promise<void> {
    await begin(number);
    await given.store.leavePaymentUnresolved(paymentIntent(number).key, "nobody knows");
  }

  describe("failed payments that turn out paid", () => {
    test("Queue their JobCall exactly once, over a restart, with a full queue, and with the body that was sent", async () => {
      const begun = await begin(1);
      await fail(1);
      expect(await watched()).toEqual([begun.kind === "begun" ? begun.callId : 0]);
      for (let n = 0; n < MAX_PENDING; n++) await acceptId(given.store);
      await given.reopen();
      expect(given.store.status().full).toBe(true);
      const outcomes = await Promise.all(
        ["first", "second"].map((settlement) => given.store.settlePayment(key, settlement)),
      );
      expect(outcomes).toMatchObject([
        { kind: "settled", changed: true, record: { settlement: "first" } },
        { kind: "settled", changed: false },
      ]);
      expect(await given.store.findPayment(key)).toMatchObject({
        state: "settled",
        reason: "recorded as failed before: not paid",
      });
      expect(await watched()).toEqual([]);
      const { attempt, encoded } = await claimOne(given.store, { jobIds: [7n] });
      expect([attempt, Buffer.from(encoded).toString()]).toEqual([1, "body 1"]);
      await expectBalance(given.store);
      expect(await given.store.totals()).toMatchObject({
        calls: { held: 0, ready: MAX_PENDING, leased: 1 },
        payments: { settled: 1, failed: 0 },
      });
    });

    test("Are settled, and not contradicted: their JobCalls stay kept", async () => {
      await begin(1);
      await fail(1);
      expect(await given.store.contradictPayment(key, "it was paid")).toBe(false);
      expect(await watched()).toHaveLength(1);
    });

    test("Are settled even in the batch that fails them", async () => {
      await begin(1);
      const [failed, settled] = await Promise.all([fail(1), given.store.settlePayment(key, "{}")]);
      expect([failed.kind, settled.kind]).toEqual(["failed", "settled"]);
      expect(await watched()).toEqual([]);
      await claimOne(given.store);
      await expectBalance(given.store);
    });

    test("Use up their one-time nonce again", async () => {
      const nonce = oneTimeNonce("n", START_MS / 1000 + 3_600);
      await begin(1, { oneTimeNonces: [nonce] });
      await fail(1);
      expect(await given.store.isNonceUsed(nonce)).toBe(false);
      await given.store.settlePayment(key, "{}");
      expect(await given.store.isNonceUsed(nonce)).toBe(true);
    });

    test("Are watched for a day, and then cannot be settled", async () => {
      await begin(1);
      await begin(2);
      await fail(1);
      given.now += WATCHED_MS - 1;
      await fail(2);
      expect(await given.store.endWatches()).toBe(false);
      expect(await watched()).toHaveLength(2);
      given.now += 1;
      await given.store.endWatches();
      expect(await watched()).toHaveLength(1);
      expect(await given.store.settlePayment(key, "{}")).toEqual({ kind: "not_open" });
      expect(await given.store.settlePayment(paymentIntent(2).key, "{}")).toMatchObject({ changed: true });
    });
  });

  describe("payments that settle before their block is final", () => {
    const early = async () => idsOf(await given.store.listUndecided({ state: "early", limit: 100 }));

    test("Queue their JobCall, and are watched until they are final, over a restart and for longer than a day", async () => {
      const begun = await begin(1);
      await given.store.settlePayment(key, "{}", "7", undefined, true);
      await claimOne(given.store);
      given.now += WATCHED_MS;
      await given.reopen();
      await given.store.endWatches();
      expect(await early()).toEqual([begun.kind === "begun" ? begun.callId : 0]);
      expect(await watched()).toEqual([]);
      const before = await given.store.findPayment(key);
      const final = await Promise.all([
        given.store.finalizePayment(key, "8"),
        given.store.finalizePayment(key, "9"),
      ]);
      expect(final).toEqual([true, false]);
      expect(await early()).toEqual([]);
      expect(await given.store.findPayment(key)).toEqual(before);
      expect(await given.store.contradictPayment(key, "not paid")).toBe(false);
    });

    test("Keep their job when the chain no longer has them, which one contradiction says", async () => {
      await begin(1);
      await given.store.settlePayment(key, "{}", "7", undefined, true);
      const contradicted = await Promise.all([
        given.store.contradictPayment(key, "a fork took it"),
        given.store.contradictPayment(key, "again"),
      ]);
      expect(contradicted).toEqual([true, false]);
      expect(await given.store.findPayment(key)).toMatchObject({
        state: "settled",
        reason: "a fork took it",
      });
      expect(await early()).toEqual([]);
      expect(await given.store.finalizePayment(key, "8")).toBe(false);
      await claimOne(given.store);
      await expectBalance(given.store);
    });

    test("Are watched as well if they are charged after the job, or had failed; not if their block is final", async () => {
      const deferred = paymentIntent(1, { amount: "1001", charge: "after" });
      await given.store.beginPayment(deferred, paidCall());
      const lease = await claimOne(given.store);
      await given.store.ack(lease, undefined, { units: "1001" });
      await given.store.settlePayment(deferred.key, "{}", undefined, undefined, true);
      const begun = await begin(2);
      await fail(2);
      await given.store.settlePayment(paymentIntent(2).key, "{}", undefined, undefined, true);
      await begin(3);
      await given.store.settlePayment(paymentIntent(3).key, "{}");
      expect(await early()).toEqual([lease.callId, begun.kind === "begun" ? begun.callId : 0]);
      expect(await watched()).toEqual([]);
      expect(await given.store.finalizePayment(paymentIntent(3).key)).toBe(false);
    });
  });

  describe("deferred payments whose authorization turns out to have moved money", () => {
    const deferred = (number: number) => paymentIntent(number, { amount: "1001", charge: "used" });
    const moved = (number: number) =>
      JSON.stringify({ success: false, transaction: `0x${number}`, amount: "7", errorMessage: "it paid 7" });

    /** Runs a job that is charged so many units. */
    async function charged(number: number, units: string): Promise<number> {
      await given.store.beginPayment(deferred(number), paidCall());
      const lease = await claimOne(given.store);
      await given.store.ack(lease, undefined, { units });
      return lease.callId;
    }

    test("Are watched once they are released or failed, and show once what moved", async () => {
      const released = await charged(1, "0");
      const failed = await charged(2, "5");
      await given.store.failPayment(deferred(2).key, "{}", "cancelled");
      await given.store.beginPayment(deferred(3), paidCall());
      const dead = await claimOne(given.store);
      await given.store.fail(dead, "no ink");
      expect(await watched()).toEqual([released, failed, dead.callId]);
      for (const number of [1, 2]) {
        const { key } = deferred(number);
        expect(await given.store.contradictPayment(key, "it paid 7", moved(number))).toBe(true);
        expect(await given.store.contradictPayment(key, "again", moved(number))).toBe(false);
      }
      expect(await watched()).toEqual([dead.callId]);
      const told = { amount: "7", transaction: "0x1", reason: "it paid 7" };
      const call = await given.store.findCall(released);
      expect(call).toMatchObject({
        state: "succeeded",
        charge: { state: "released", amount: "0", moved: told },
      });
      expect(call).not.toHaveProperty("settlement");
      expect(await given.store.findCall(failed)).toMatchObject({
        state: "failed",
        charge: { state: "failed", amount: "5", moved: { ...told, transaction: "0x2" } },
      });
      expect(await given.store.findPayment(deferred(1).key)).toMatchObject({ reason: "it paid 7" });
      await expectBalance(given.store);
    });

    test("Keep the JobCall of a job that still runs when the watch ends", async () => {
      await given.store.beginPayment(
        { ...deferred(1), minCharge: "1" },
        paidCall({ body: Buffer.from("body 1") }),
      );
      const { callId } = await claimOne(given.store);
      await given.store.endAuthorization(callId);
      await given.store.failPayment(deferred(1).key, "{}", "cancelled");
      given.now += WATCHED_MS;
      await given.store.endWatches();
      expect(await watched()).toEqual([]);
      expect(Buffer.from((await claimOne(given.store)).encoded).toString()).toBe("body 1");
    });
  });

  describe("payments that the operator closes", () => {
    const asPaid: PaymentClosing = { as: "paid", by: "ada", note: "block 12" };
    const asNotPaid: PaymentClosing = { as: "not_paid", by: "ada", note: "looked\u0000 it up" };

    test("As paid are settled, and queue their JobCall exactly once, even in a full queue", async () => {
      await unresolved(1);
      for (let n = 0; n < MAX_PENDING; n++) await acceptId(given.store);
      const [first, second] = await Promise.all([
        given.store.closePayment(key, asPaid),
        given.store.closePayment(key, asPaid),
      ]);
      const record = await given.store.findPayment(key);
      expect(record).toMatchObject({
        state: "settled",
        reason: "nobody knows",
        closed: { ...asPaid, at: START_MS },
      });
      expect(JSON.parse(record?.settlement ?? "")).toEqual({
        success: true,
        payer: key.payer,
        transaction: "",
        network: key.network,
      });
      expect(first).toEqual({ kind: "closed", record });
      expect(second).toEqual({ kind: "not_open", record });
      await claimOne(given.store, { jobIds: [7n] });
      await expectBalance(given.store);
    });

    test("As not paid fail, leave the queue, and can still be closed or settled as paid", async () => {
      for (const number of [1, 2]) {
        await unresolved(number);
        expect(await given.store.closePayment(paymentIntent(number).key, asNotPaid)).toMatchObject({
          kind: "closed",
          record: { state: "failed", closed: { as: "not_paid", by: "ada" } },
        });
      }
      expect((await given.store.totals()).calls.held).toBe(0);
      expect(await given.store.closePayment(key, asNotPaid)).toMatchObject({ kind: "not_open" });
      expect(await given.store.closePayment(key, asPaid)).toMatchObject({ record: { state: "settled" } });
      expect(await given.store.settlePayment(paymentIntent(2).key, "{}")).toMatchObject({ changed: true });
      expect(await claimCalls(given.store)).toHaveLength(2);
      await expectBalance(given.store);
    });

    test("Are unresolved, or undecided past the end of their authorization; never settled ones", async () => {
      await begin(1);
      const isOpen = async () => (await given.store.closePayment(key, asNotPaid)).kind === "closed";
      given.now += YOUNG_MS;
      expect(await isOpen()).toBe(false);
      given.now = paymentIntent(1).validBefore * 1000;
      expect(await isOpen()).toBe(true);
      await paidId(given.store, 2);
      expect(await given.store.closePayment(paymentIntent(2).key, asNotPaid)).toMatchObject({
        kind: "not_open",
        record: { state: "settled" },
      });
      expect(await given.store.closePayment(paymentIntent(3).key, asPaid)).toEqual({
        kind: "not_open",
        record: undefined,
      });
    });

    test("Are watched, and one contradiction by the chain ends that", async () => {
      await unresolved(1);
      await given.store.closePayment(key, asPaid);
      expect(await watched()).toHaveLength(1);
      const contradicted = await Promise.all([
        given.store.contradictPayment(key, "the chain shows no payment"),
        given.store.contradictPayment(key, "again"),
      ]);
      expect(contradicted).toEqual([true, false]);
      expect(await given.store.findPayment(key)).toMatchObject({
        state: "settled",
        reason: "the chain shows no payment",
        closed: asPaid,
      });
      expect(await watched()).toEqual([]);
      await claimOne(given.store);
    });

    test("Keep the JobCall that was queued when the watch ends", async () => {
      await unresolved(1);
      await given.store.closePayment(key, asPaid);
      given.now += WATCHED_MS;
      await given.store.endWatches();
      expect(await watched()).toEqual([]);
      expect(Buffer.from((await claimOne(given.store)).encoded).toString()).toBe("body 1");
    });
  });
}
