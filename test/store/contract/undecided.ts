import { describe, expect, test } from "vitest";
import { YOUNG_MS } from "../../../src/store/contract/payment-journal.ts";
import { eventually } from "../../helpers/eventually.ts";
import { acceptId, paidCall, paymentIntent, webhookCall } from "../store-fixtures.ts";
import { expectBalance, type Given, MAX_PENDING } from "./given.ts";

export function describeUndecided(given: Given): void {
  describe("undecided payments", () => {
    const limits = { maxUndecided: 5, maxOpenPerPayer: 2 };
    const intentOf = (number: number, payer?: string) => {
      const intent = paymentIntent(number);
      return payer === undefined ? intent : { ...intent, key: { ...intent.key, payer } };
    };
    const payer = (digit: number) => `0x${String(digit).repeat(40)}`;
    const begin = (number: number, from?: string) =>
      given.store.beginPayment(intentOf(number, from), paidCall(), limits);

    async function fillWithIntents(): Promise<void> {
      for (let number = 1; number <= MAX_PENDING; number++) {
        await given.store.beginPayment(paymentIntent(number), paidCall());
      }
    }
    const expectRoom = () => eventually(() => expect(given.store.status().full).toBe(false));

    test("Keep their places in the queue for a minute, and no longer", async () => {
      await fillWithIntents();
      expect(given.store.status().full).toBe(true);
      expect(await given.store.accept(webhookCall())).toEqual({ kind: "queue_full" });
      given.now += YOUNG_MS - 1;
      expect(await given.store.accept(webhookCall())).toEqual({ kind: "queue_full" });
      given.now += 1_001;
      await expectRoom();
      for (let n = 0; n < MAX_PENDING; n++) await acceptId(given.store);
      expect(await given.store.accept(webhookCall())).toEqual({ kind: "queue_full" });
    });

    test("Are queued when they turn out paid, even in a full queue", async () => {
      await fillWithIntents();
      given.now += YOUNG_MS;
      await expectRoom();
      for (let n = 0; n < MAX_PENDING; n++) await acceptId(given.store);
      expect(await given.store.settlePayment(paymentIntent(1).key, "{}")).toMatchObject({ kind: "settled" });
      expect(await given.store.totals()).toMatchObject({ calls: { ready: MAX_PENDING + 1 } });
      await expectBalance(given.store);
    });

    test("Keep no place once they are unresolved, over a restart too", async () => {
      await fillWithIntents();
      for (let number = 1; number <= MAX_PENDING; number++) {
        await given.store.leavePaymentUnresolved(paymentIntent(number).key, "nobody knows");
      }
      await expectRoom();
      await given.reopen();
      await expectRoom();
      expect(await given.store.accept(webhookCall())).toMatchObject({ kind: "accepted" });
      expect(await given.store.settlePayment(paymentIntent(1).key, "{}")).toMatchObject({ kind: "settled" });
    });

    test("Older than a minute are limited for each payer", async () => {
      for (const number of [1, 2, 3]) expect(await begin(number, payer(1))).toMatchObject({ kind: "begun" });
      given.now += YOUNG_MS;
      expect(await begin(4, payer(1))).toEqual({ kind: "too_many_open_payments" });
      expect(await begin(5, payer(2))).toMatchObject({ kind: "begun" });
      await given.store.failPayment(intentOf(1, payer(1)).key, "{}", "not paid");
      await given.store.leavePaymentUnresolved(intentOf(2, payer(1)).key, "nobody knows");
      expect(await begin(4, payer(1))).toMatchObject({ kind: "begun" });
    });

    test("Older than a minute are limited together, over a restart too", async () => {
      for (const number of [1, 2, 3, 4, 5]) await begin(number, payer(number));
      given.now += YOUNG_MS;
      await given.reopen();
      expect(await begin(6, payer(6))).toEqual({ kind: "too_many_undecided" });
      await given.store.settlePayment(intentOf(1, payer(1)).key, "{}");
      expect(await begin(6, payer(6))).toMatchObject({ kind: "begun" });
    });
  });
}
