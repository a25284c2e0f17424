import { describe, expect, test } from "vitest";
import { alertsOfWeek, PAYMENT_ALERTS } from "../../../../src/parts/payment-alerts/store/module.ts";
import type { Given } from "../../../store/contract/given.ts";
import { claimOne, paidCall, paymentIntent, START_MS } from "../../../store/store-fixtures.ts";

const DAY_MS = 86_400_000;
const MOVED = JSON.stringify({
  ...{ success: false, transaction: "0x1", amount: "7", errorMessage: "it paid 7" },
});

export function describePaymentAlerts(given: Given): void {
  const deferred = (number: number) => paymentIntent(number, { amount: "1001", charge: "used" });
  const list = () => given.store.of(PAYMENT_ALERTS).listPaymentAlerts({ limit: 9 });
  const kinds = async () => (await list()).map(({ kind, callId, amount }) => [kind, callId, amount]);

  /** Runs a job whose charge is being settled. */
  async function charged(number: number): Promise<number> {
    await given.store.beginPayment(deferred(number), paidCall());
    const lease = await claimOne(given.store);
    await given.store.ack(lease, undefined, { units: "5" });
    return lease.callId;
  }

  async function begin(number: number): Promise<number> {
    const begun = await given.store.beginPayment(paymentIntent(number), paidCall());
    return begun.kind === "begun" ? begun.callId : 0;
  }

  describe("alerts about payments", () => {
    test("A charge that failed after its job is an alert, and a charge that the operator closes is not", async () => {
      const callId = await charged(1);
      given.now += 1_000;
      await given.store.failPayment(deferred(1).key, "{}", "cancelled");
      await charged(2);
      await given.store.leavePaymentUnresolved(deferred(2).key, "nobody knows");
      await given.store.closePayment(deferred(2).key, { as: "not_paid", by: "ada", note: "looked" });
      const { key, serviceId, jobIndex, symbol } = deferred(1);
      expect(await list()).toEqual([
        {
          ...{ id: expect.any(Number), kind: "charge_lost", at: START_MS + 1_000, callId },
          ...{ serviceId, jobIndex, network: key.network, asset: key.asset, symbol, payer: key.payer },
          ...{ amount: "5", reason: "cancelled" },
        },
      ]);
    });

    test("A payment that failed and is settled after all is an alert, unless the operator settles it", async () => {
      const failed = await begin(1);
      await given.store.failPayment(paymentIntent(1).key, "{}", "not paid");
      const closed = await begin(2);
      await given.store.leavePaymentUnresolved(paymentIntent(2).key, "nobody knows");
      await given.store.closePayment(paymentIntent(2).key, { as: "paid", by: "ada", note: "block 12" });
      await begin(3);
      await given.store.settlePayment(paymentIntent(3).key, "{}");
      expect(await kinds()).toEqual([]);
      await given.store.settlePayment(paymentIntent(1).key, "{}");
      await given.store.contradictPayment(paymentIntent(2).key, "the chain shows no payment");
      const { amount } = paymentIntent(1);
      expect(await kinds()).toEqual([
        ["not_paid", closed, amount],
        ["paid", failed, amount],
      ]);
    });

    test("A payment that a fork took after its job was sold, and a payment that moved money after its release, are alerts", async () => {
      const sold = await begin(1);
      await given.store.settlePayment(paymentIntent(1).key, "{}", "7", undefined, true);
      await given.store.contradictPayment(paymentIntent(1).key, "a fork took it");
      await claimOne(given.store);
      await given.store.beginPayment(deferred(2), paidCall());
      const lease = await claimOne(given.store);
      await given.store.ack(lease, undefined, { units: "0" });
      await given.store.contradictPayment(deferred(2).key, "it paid 7", MOVED);
      expect(await kinds()).toEqual([
        ["paid", lease.callId, "7"],
        ["not_paid", sold, paymentIntent(1).amount],
      ]);
      await given.reopen();
      expect(await given.store.of(PAYMENT_ALERTS).listPaymentAlerts({ kind: "paid", limit: 9 })).toHaveLength(
        1,
      );
    });

    test("The totals count the alerts of seven UTC days", async () => {
      for (const number of [1, 2, 3]) {
        await charged(number);
        await given.store.failPayment(deferred(number).key, "{}", "cancelled");
        if (number < 3) given.now += 4 * DAY_MS;
      }
      const count = async (now: number) => alertsOfWeek(await given.store.totals(), now);
      expect(await count(given.now)).toEqual({ charge_lost: 2, paid: 0, not_paid: 0 });
      expect(await count(given.now + 2 * DAY_MS)).toMatchObject({ charge_lost: 2 });
      expect(await count(given.now + 3 * DAY_MS)).toMatchObject({ charge_lost: 1 });
      expect(await count(given.now + 7 * DAY_MS)).toMatchObject({ charge_lost: 0 });
    });
  });
}
