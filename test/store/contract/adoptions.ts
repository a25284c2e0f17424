import { describe, expect, test } from "vitest";
import type { AdoptedPayment } from "../../../src/store/contract/adoption-ledger.ts";
import { claimOne, paidCall, paidId, paymentIntent } from "../store-fixtures.ts";
import { expectBalance, type Given } from "./given.ts";

const DAY_MS = 86_400_000;

export function describeAdoptions(given: Given): void {
  const payment = (number: number, over: Partial<AdoptedPayment> = {}): AdoptedPayment => {
    const { key, payTo, amount, transferMethod } = paymentIntent(number);
    const transaction = `0x${"1e".repeat(32)}`;
    const signature = { by: "ada", note: "copy restored" };
    return { key, payTo, amount, transferMethod, transaction, blockNumber: "7", ...signature, ...over };
  };

  describe("adopted payments", () => {
    test("An adopted payment is found by payer and nonce, also after a restart, and the first adoption stays", async () => {
      const first = payment(1);
      expect(await given.store.adoptPayment(first)).toEqual({ kind: "adopted", changed: true });
      const again = payment(1, { note: "again" });
      const repeated = await Promise.all([again, again].map((one) => given.store.adoptPayment(one)));
      expect(repeated).toEqual(repeated.map(() => ({ kind: "adopted", changed: false })));
      await given.reopen();
      expect(await given.store.findAdoptedPayments(first.key)).toEqual([first]);
      expect(await given.store.findAdoptedPayments(payment(2).key)).toEqual([]);
    });

    test("Payments in two tokens with one payer and one nonce are two adopted payments", async () => {
      const { key } = payment(1);
      const other = payment(1, { key: { ...key, asset: `0x${"22".repeat(20)}` }, note: "other \0" });
      await given.store.adoptPayment(payment(1));
      expect(await given.store.adoptPayment(other)).toEqual({ kind: "adopted", changed: true });
      expect(await given.store.findAdoptedPayments(key)).toHaveLength(2);
    });

    test("A payment in the journal is not adopted, and an adopted payment counts only once it is begun", async () => {
      const intent = paymentIntent(1);
      expect(await given.store.adoptPayment(payment(1))).toMatchObject({ kind: "adopted" });
      expect((await given.store.totals()).payments).toMatchObject({ intent: 0, settled: 0 });
      await expectBalance(given.store);
      const begun = await given.store.beginPayment(intent, paidCall());
      if (begun.kind !== "begun") throw new Error(`expected begun, got ${begun.kind}`);
      await given.store.settlePayment(intent.key, "{}");
      const known = { kind: "payment_known", callId: begun.callId };
      expect(await given.store.adoptPayment(payment(1))).toEqual(known);
      expect(await given.store.beginPayment(intent, paidCall())).toMatchObject({ kind: "payment_known" });
      await expectBalance(given.store);
    });

    test("An adoption is forgotten with its payment, so that it buys nothing again", async () => {
      for (const number of [1, 2]) await given.store.adoptPayment(payment(number));
      await paidId(given.store, 1);
      await given.store.ack(await claimOne(given.store));
      given.now += 10 * DAY_MS;
      for (const kind of ["calls", "results"] as const)
        await given.store.prune({ kind, ageMs: DAY_MS, after: 0 });
      expect(await given.store.findAdoptedPayments(payment(1).key)).toHaveLength(1);
      expect(await given.store.prune({ kind: "payments", ageMs: DAY_MS, after: 0 })).toMatchObject({
        removed: 1,
      });
      expect(await given.store.findAdoptedPayments(payment(1).key)).toEqual([]);
      expect(await given.store.findAdoptedPayments(payment(2).key)).toHaveLength(1);
    });
  });
}
