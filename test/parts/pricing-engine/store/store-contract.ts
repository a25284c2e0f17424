import { describe, expect, test } from "vitest";
import type { PaymentIntent } from "../../../../src/core/payment.ts";
import { nonceOfQuote, QUOTES } from "../../../../src/parts/pricing-engine/store/module.ts";
import type { Given } from "../../../store/contract/given.ts";
import { claimCalls, claimOne, paidCall, paymentIntent, START_MS } from "../../../store/store-fixtures.ts";

const DAY_MS = 86_400_000;

export function describeQuotes(given: Given): void {
  describe("quotes", () => {
    const quote = { digest: "d".repeat(64), quote: '{"price":"1"}', expiresAt: START_MS + 1000 };
    const ledger = () => given.store.of(QUOTES);
    const redeeming = (number: number, overrides: Partial<PaymentIntent> = {}) =>
      paymentIntent(number, { receipt: quote.digest, oneTimeNonces: [nonceOfQuote(quote)], ...overrides });
    const begin = (intent: PaymentIntent) => given.store.beginPayment(intent, paidCall());

    test("A quote is found until it expires, as first written; also after a restart", async () => {
      expect(await ledger().saveQuote(quote)).toEqual(quote);
      expect(await ledger().saveQuote({ ...quote, quote: "{}" })).toEqual(quote);
      await given.reopen();
      expect(await ledger().findQuote(quote.digest)).toEqual({ ...quote, isPaid: false });
      expect(await ledger().findQuote("e".repeat(64))).toBeUndefined();
      given.now += 1000;
      expect(await ledger().findQuote(quote.digest)).toBeUndefined();
    });

    test("A quote that is saved again after its end is the new one", async () => {
      await ledger().saveQuote(quote);
      given.now += 1000;
      const anew = { ...quote, expiresAt: quote.expiresAt + 5000 };
      expect(await ledger().saveQuote(anew)).toEqual(anew);
      expect(await ledger().findQuote(quote.digest)).toEqual({ ...anew, isPaid: false });
    });

    test("A quote is paid while a payment redeems it, unless that failed", async () => {
      await ledger().saveQuote(quote);
      await begin(paymentIntent(2, { receipt: quote.digest }));
      expect(await ledger().findQuote(quote.digest)).toMatchObject({ isPaid: false });
      await begin(redeeming(1));
      expect(await ledger().findQuote(quote.digest)).toMatchObject({ isPaid: true });
      await given.store.failPayment(redeeming(1).key, "{}", "nothing moved");
      expect(await ledger().findQuote(quote.digest)).toMatchObject({ isPaid: false });
    });

    test("Exactly one of fifty concurrent payments that redeem one quote begins; the others change nothing", async () => {
      const outcomes = await Promise.all(Array.from({ length: 50 }, (_, i) => begin(redeeming(i + 1))));
      expect(outcomes.filter(({ kind }) => kind === "begun")).toHaveLength(1);
      expect(outcomes.filter(({ kind }) => kind === "nonce_used")).toHaveLength(49);
      expect((await given.store.totals()).calls.held).toBe(1);
    });

    test("Payments that share a current price's quote have one receipt, beside a payment that redeems the quote", async () => {
      const { receipt } = redeeming(2);
      const intents = [paymentIntent(1, { receipt }), redeeming(2), paymentIntent(3, { receipt })];
      const begun = await Promise.all(intents.map(begin));
      expect(begun.map(({ kind }) => kind)).toEqual(["begun", "begun", "begun"]);
      await given.reopen();
      for (const intent of intents) expect(await given.store.findPayment(intent.key)).toMatchObject(intent);
    });

    test("A quote whose payment failed can be paid again, and a quote whose payment settled cannot", async () => {
      await begin(redeeming(1));
      await given.store.failPayment(redeeming(1).key, "{}", "nothing moved");
      expect(await begin(redeeming(2))).toMatchObject({ kind: "begun" });
      await given.store.settlePayment(redeeming(2).key, "{}");
      await given.reopen();
      expect(await begin(redeeming(3))).toMatchObject({ kind: "nonce_used" });
    });

    test("A quote whose job ran can be paid again when its charge failed, and cannot when its job failed", async () => {
      const late = (number: number) => redeeming(number, { charge: "after" });
      await begin(late(1));
      await given.store.ack(await claimOne(given.store));
      await given.store.failPayment(late(1).key, "{}", "nothing moved");
      expect(await begin(late(2))).toMatchObject({ kind: "begun" });
      await given.store.fail(await claimOne(given.store), "gave up");
      expect(await begin(late(3))).toMatchObject({ kind: "nonce_used" });
    });

    test("A payment that redeems a quote is not forgotten while the quote is kept", async () => {
      const lasting = { ...quote, expiresAt: START_MS + 30 * DAY_MS };
      await ledger().saveQuote(lasting);
      const nonce = nonceOfQuote(lasting);
      await begin(redeeming(1, { oneTimeNonces: [nonce] }));
      await begin(paymentIntent(2, { receipt: quote.digest }));
      for (const number of [1, 2]) await given.store.settlePayment(redeeming(number).key, "{}");
      for (const lease of await claimCalls(given.store)) await given.store.ack(lease);
      given.now += 10 * DAY_MS;
      const prune = async (kind: "results" | "calls" | "payments") =>
        (await given.store.prune({ kind, ageMs: DAY_MS, after: 0 })).removed;
      await prune("results");
      await prune("calls");
      expect(await prune("payments")).toBe(1);
      given.now = lasting.expiresAt;
      await ledger().saveQuote({ ...quote, digest: "e".repeat(64), expiresAt: given.now + 1000 });
      expect(await prune("payments")).toBe(1);
    });

    test("A payment that failed and turns out paid is settled although another has redeemed its quote since", async () => {
      await begin(redeeming(1));
      await given.store.failPayment(redeeming(1).key, "{}", "nothing moved");
      await begin(redeeming(2));
      await given.store.settlePayment(redeeming(2).key, "{}");
      expect(await given.store.settlePayment(redeeming(1).key, "{}")).toMatchObject({ changed: true });
      expect(await begin(redeeming(3))).toMatchObject({ kind: "nonce_used" });
    });
  });
}
