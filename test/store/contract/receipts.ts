import { describe, expect, test } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { paidCall, paymentIntent } from "../store-fixtures.ts";
import type { Given } from "./given.ts";

export function describeReceipts(given: Given): void {
  describe("receipts", () => {
    const withReceipt = (number: number, more: Partial<PaymentIntent> = {}) => ({
      ...paymentIntent(number),
      receipt: "a".repeat(64),
      ...more,
    });

    test("Exactly one of fifty concurrent payments with one receipt begins; the others change nothing", async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, i) => given.store.beginPayment(withReceipt(i + 1), paidCall())),
      );
      expect(outcomes.filter(({ kind }) => kind === "begun")).toHaveLength(1);
      expect(outcomes.filter(({ kind }) => kind === "receipt_used")).toHaveLength(49);
      expect((await given.store.totals()).calls.held).toBe(1);
    });

    test("A payment uses its spare receipt when the first is taken", async () => {
      const first = await given.store.beginPayment(
        withReceipt(1, { spareReceipt: "b".repeat(64) }),
        paidCall(),
      );
      const second = await given.store.beginPayment(
        withReceipt(2, { spareReceipt: "c".repeat(64) }),
        paidCall(),
      );
      expect([first, second]).toMatchObject([
        { kind: "begun", receipt: "a".repeat(64) },
        { kind: "begun", receipt: "c".repeat(64) },
      ]);
      expect(await given.store.findPayment(withReceipt(2).key)).toMatchObject({ receipt: "c".repeat(64) });
    });

    test("The receipt of a failed payment is free again, that of a settled one is not", async () => {
      await given.store.beginPayment(withReceipt(1), paidCall());
      await given.store.failPayment(withReceipt(1).key, "{}", "nothing moved");
      expect(await given.store.beginPayment(withReceipt(2), paidCall())).toMatchObject({ kind: "begun" });
      await given.store.settlePayment(withReceipt(2).key, "{}");
      await given.reopen();
      expect(await given.store.beginPayment(withReceipt(3), paidCall())).toEqual({ kind: "receipt_used" });
    });
  });
}
