import { describe, expect, test } from "vitest";
import { paidCall, paymentIntent } from "../store-fixtures.ts";
import type { Given } from "./given.ts";

export function describeReceipts(given: Given): void {
  describe("receipts", () => {
    const receipt = "a".repeat(64);
    const redeeming = (number: number) => paymentIntent(number, { receipt, redeemsQuote: true });

    test("Exactly one of fifty concurrent payments that redeem one quote begins; the others change nothing", async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, i) => given.store.beginPayment(redeeming(i + 1), paidCall())),
      );
      expect(outcomes.filter(({ kind }) => kind === "begun")).toHaveLength(1);
      expect(outcomes.filter(({ kind }) => kind === "quote_paid")).toHaveLength(49);
      expect((await given.store.totals()).calls.held).toBe(1);
    });

    test("Payments that share a current price's quote have one receipt, beside one that redeems it", async () => {
      const intents = [paymentIntent(1, { receipt }), redeeming(2), paymentIntent(3, { receipt })];
      const begun = await Promise.all(intents.map((intent) => given.store.beginPayment(intent, paidCall())));
      expect(begun.map(({ kind }) => kind)).toEqual(["begun", "begun", "begun"]);
      await given.reopen();
      for (const intent of intents) expect(await given.store.findPayment(intent.key)).toMatchObject(intent);
    });

    test("A quote whose payment failed can be paid again, one whose payment settled cannot", async () => {
      await given.store.beginPayment(redeeming(1), paidCall());
      await given.store.failPayment(redeeming(1).key, "{}", "nothing moved");
      expect(await given.store.beginPayment(redeeming(2), paidCall())).toMatchObject({ kind: "begun" });
      await given.store.settlePayment(redeeming(2).key, "{}");
      await given.reopen();
      expect(await given.store.beginPayment(redeeming(3), paidCall())).toEqual({ kind: "quote_paid" });
    });
  });
}
