import { describe, expect, test } from "vitest";
import { paidCall, paymentIntent, START_MS } from "../store-fixtures.ts";
import type { Given } from "./given.ts";

export function describeOffersAndQuotes(given: Given): void {
  describe("offers", () => {
    const job = { serviceId: 2n ** 64n - 1n, jobIndex: 2 ** 32 - 1 };
    const known = (id: string) => ({ id, job, offer: `{"id":"${id}"}` });
    const made = (id: string, validForMs: number) => ({ ...known(id), validForMs });
    const saved = (id: string, validUntil: number) => ({ ...known(id), validUntil });

    test("Offers of a job are found until they end, latest end first; also after a restart", async () => {
      await given.store.saveOffers([made("a", 1000), made("b", 2000)]);
      await given.store.saveOffers([{ ...made("other", 5000), job: { ...job, jobIndex: 0 } }]);
      await given.reopen();
      expect(await given.store.findOffers(job)).toEqual([
        saved("b", START_MS + 2000),
        saved("a", START_MS + 1000),
      ]);
      given.now += 1000;
      expect(await given.store.findOffers(job)).toEqual([saved("b", START_MS + 2000)]);
      expect(await given.store.findOffers({ serviceId: 1n, jobIndex: 1 })).toEqual([]);
    });

    test("An offer that is saved again keeps its later end", async () => {
      await given.store.saveOffers([made("a", 2000)]);
      await given.store.saveOffers([made("a", 1000)]);
      expect(await given.store.findOffers(job)).toEqual([saved("a", START_MS + 2000)]);
      await given.store.saveOffers([made("a", 3000)]);
      expect(await given.store.findOffers(job)).toEqual([saved("a", START_MS + 3000)]);
    });
  });

  describe("quotes", () => {
    const quote = { digest: "d".repeat(64), quote: '{"price":"1"}', expiresAt: START_MS + 1000 };

    test("A quote is found until it expires, as first written; also after a restart", async () => {
      expect(await given.store.saveQuote(quote)).toEqual(quote);
      expect(await given.store.saveQuote({ ...quote, quote: "{}" })).toEqual(quote);
      await given.reopen();
      expect(await given.store.findQuote(quote.digest)).toEqual({ ...quote, isPaid: false });
      expect(await given.store.findQuote("e".repeat(64))).toBeUndefined();
      given.now += 1000;
      expect(await given.store.findQuote(quote.digest)).toBeUndefined();
    });

    test("A quote that is saved again after its end is the new one", async () => {
      await given.store.saveQuote(quote);
      given.now += 1000;
      const anew = { ...quote, expiresAt: quote.expiresAt + 5000 };
      expect(await given.store.saveQuote(anew)).toEqual(anew);
      expect(await given.store.findQuote(quote.digest)).toEqual({ ...anew, isPaid: false });
    });

    test("A quote is paid while a payment redeems it, unless that failed", async () => {
      await given.store.saveQuote(quote);
      await given.store.beginPayment(paymentIntent(2, { receipt: quote.digest }), paidCall());
      expect(await given.store.findQuote(quote.digest)).toMatchObject({ isPaid: false });
      const paying = paymentIntent(1, { receipt: quote.digest, redeemsQuote: true });
      await given.store.beginPayment(paying, paidCall());
      expect(await given.store.findQuote(quote.digest)).toMatchObject({ isPaid: true });
      await given.store.failPayment(paying.key, "{}", "nothing moved");
      expect(await given.store.findQuote(quote.digest)).toMatchObject({ isPaid: false });
    });
  });
}
