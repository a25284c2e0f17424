import { describe, expect, test } from "vitest";
import { claimCalls, paidCall, paymentIntent } from "../store-fixtures.ts";
import { expectBalance, type Given } from "./given.ts";

export function describePurchaseNames(given: Given): void {
  const { payer } = paymentIntent(1).key;
  const name = "order_0123456789";
  const named = (number: number, purchaseName = name) => paymentIntent(number, { purchaseName });
  const begin = (number: number) => given.store.beginPayment(named(number), paidCall());
  const settle = (number: number) => given.store.settlePayment(named(number).key, "{}");
  const fail = (number: number) => given.store.failPayment(named(number).key, "{}", "nothing moved");
  const find = () => given.store.findPaymentByPurchaseName({ payer, name });

  describe("payments under one name", () => {
    test("Are found by payer and name, also after a restart", async () => {
      await begin(1);
      expect(await find()).toMatchObject(named(1));
      await given.reopen();
      expect(await find()).toMatchObject(named(1));
      expect(await given.store.findPaymentByPurchaseName({ payer: payer.toUpperCase(), name })).toMatchObject(
        named(1),
      );
      for (const other of [
        { payer, name: name.toUpperCase() },
        { payer, name: `${name}x` },
        { payer: "0x1", name },
      ])
        expect(await given.store.findPaymentByPurchaseName(other)).toBeUndefined();
    });

    test("Exactly one of fifty concurrent ones begins; the others learn of it and change nothing", async () => {
      const outcomes = await Promise.all(Array.from({ length: 50 }, (_, i) => begin(i + 1)));
      const begun = outcomes.filter(({ kind }) => kind === "begun");
      const known = outcomes.filter((outcome) => outcome.kind === "payment_known");
      expect([begun.length, known.length]).toEqual([1, 49]);
      const record = await find();
      expect(known.map((outcome) => outcome.record)).toEqual(known.map(() => record));
      expect((await given.store.totals()).calls.held).toBe(1);
      expect((await given.store.totals()).payments.intent).toBe(1);
    });

    test("Are apart from the names of another payer, and from payments without a name", async () => {
      const { key } = named(2);
      const others = [
        paymentIntent(2, { purchaseName: name, key: { ...key, payer: `0x${"1".repeat(40)}` } }),
        named(3, name.toUpperCase()),
        paymentIntent(4),
        paymentIntent(5),
      ];
      await begin(1);
      for (const intent of others)
        expect(await given.store.beginPayment(intent, paidCall())).toMatchObject({ kind: "begun" });
    });

    test("Another one begins once the first has failed, even in that batch, but not while it is undecided", async () => {
      await begin(1);
      await given.store.leavePaymentUnresolved(named(1).key, "nobody knows");
      expect(await begin(2)).toMatchObject({ kind: "payment_known", record: { state: "unresolved" } });
      const [failed, begun] = await Promise.all([fail(1), begin(2)]);
      expect([failed.kind, begun.kind]).toEqual(["failed", "begun"]);
      expect(await find()).toMatchObject(named(2));
      await settle(2);
      await given.reopen();
      expect(await begin(3)).toMatchObject({ kind: "payment_known", record: { state: "settled" } });
    });

    test("A failed payment that turns out paid has its name again, even in the batch that finds it paid", async () => {
      await begin(1);
      await fail(1);
      expect(await find()).toBeUndefined();
      const [settled, known] = await Promise.all([settle(1), begin(2)]);
      expect(settled).toMatchObject({ kind: "settled", changed: true });
      expect(known).toMatchObject({ kind: "payment_known", record: named(1) });
      expect(await find()).toMatchObject({ ...named(1), state: "settled" });
    });

    test("A failed payment that turns out paid is settled without its name, if another payment was begun since", async () => {
      await begin(1);
      await fail(1);
      await begin(2);
      await fail(2);
      await begin(3);
      expect(await settle(1)).toMatchObject({ kind: "settled", changed: true });
      await settle(3);
      const closing = { as: "paid", by: "ada", note: "it was" } as const;
      expect(await given.store.closePayment(named(2).key, closing)).toMatchObject({ kind: "closed" });
      expect(await find()).toMatchObject({ ...named(3), state: "settled" });
      for (const number of [1, 2])
        expect(await given.store.findPayment(named(number).key)).toMatchObject({ purchaseName: undefined });
      expect(await claimCalls(given.store)).toHaveLength(3);
      await expectBalance(given.store);
    });

    test("Of two failed payments that turn out paid at once, one has the name", async () => {
      for (const number of [1, 2]) {
        await begin(number);
        await fail(number);
      }
      await Promise.all([settle(1), settle(2)]);
      expect(await find()).toMatchObject({ ...named(1), state: "settled" });
      expect(await given.store.findPayment(named(2).key)).toMatchObject({ state: "settled" });
      await expectBalance(given.store);
    });
  });
}
