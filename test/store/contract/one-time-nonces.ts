import { describe, expect, test } from "vitest";
import { claimOne, oneTimeNonce, paidCall, paymentIntent, START_MS } from "../store-fixtures.ts";
import type { Given } from "./given.ts";

export function describeOneTimeNonces(given: Given): void {
  describe("one-time nonces", () => {
    const begin = (number: number, nonce: ReturnType<typeof oneTimeNonce>) =>
      given.store.beginPayment(paymentIntent(number, { oneTimeNonces: [nonce] }), paidCall());

    test("Exactly one of 50 concurrent payments with one nonce begins", async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, i) => begin(i + 1, oneTimeNonce("n"))),
      );
      expect(outcomes.filter(({ kind }) => kind === "begun")).toHaveLength(1);
      expect(outcomes.filter(({ kind }) => kind === "nonce_used")).toHaveLength(49);
      const totals = await given.store.totals();
      expect([totals.calls.held, totals.payments.intent]).toEqual([1, 1]);
    });

    test("A nonce is compared byte for byte", async () => {
      await begin(1, oneTimeNonce("n"));
      for (const [index, nonce] of [oneTimeNonce("N"), oneTimeNonce("n "), oneTimeNonce("")].entries()) {
        expect(await given.store.isNonceUsed(nonce)).toBe(false);
        expect((await begin(index + 2, nonce)).kind).toBe("begun");
      }
    });

    test("A used nonce is remembered until its expiry, also after a restart", async () => {
      await begin(1, oneTimeNonce("n"));
      await given.reopen();
      given.now = START_MS + 59_999;
      expect(await given.store.isNonceUsed(oneTimeNonce("n"))).toBe(true);
      expect((await begin(2, oneTimeNonce("n"))).kind).toBe("nonce_used");
      given.now = START_MS + 60_001;
      expect(await given.store.isNonceUsed(oneTimeNonce("n"))).toBe(false);
      expect((await begin(3, oneTimeNonce("n", START_MS / 1000 + 120))).kind).toBe("begun");
      expect(await given.store.isNonceUsed(oneTimeNonce("n"))).toBe(true);
    });

    test("An expired nonce is refused: it may have been used before", async () => {
      await begin(1, oneTimeNonce("n"));
      given.now = START_MS + 60_000;
      expect((await begin(2, oneTimeNonce("n"))).kind).toBe("nonce_used");
      expect((await begin(3, oneTimeNonce("never used"))).kind).toBe("nonce_used");
      expect((await given.store.totals()).payments.intent).toBe(1);
    });

    test("A failed payment frees its nonce, unless another payment has taken the nonce over", async () => {
      await begin(1, oneTimeNonce("n"));
      await given.store.failPayment(paymentIntent(1).key, "{}", "why");
      expect(await given.store.isNonceUsed(oneTimeNonce("n"))).toBe(false);

      await begin(2, oneTimeNonce("n"));
      given.now += 61_000;
      await begin(3, oneTimeNonce("n", START_MS / 1000 + 200));
      await given.store.failPayment(paymentIntent(2).key, "{}", "why");
      expect(await given.store.isNonceUsed(oneTimeNonce("n"))).toBe(true);
    });

    test("A payment uses up all of its nonces or none", async () => {
      const [one, other] = [oneTimeNonce("n"), oneTimeNonce("m")];
      const both = (number: number) =>
        given.store.beginPayment(paymentIntent(number, { oneTimeNonces: [one, other] }), paidCall());
      await begin(1, other);
      expect(await both(2)).toEqual({ kind: "nonce_used", key: "m" });
      expect(await given.store.isNonceUsed(one)).toBe(false);
      await given.store.failPayment(paymentIntent(1).key, "{}", "why");
      expect((await both(3)).kind).toBe("begun");
      await given.reopen();
      expect(await begin(4, one)).toEqual({ kind: "nonce_used", key: "n" });
      expect(await begin(5, other)).toEqual({ kind: "nonce_used", key: "m" });
    });

    test("A charge that failed frees the nonces of the charge, not the nonces of the run", async () => {
      const [ofRun, ofCharge] = [oneTimeNonce("n"), { ...oneTimeNonce("m"), isOfCharge: true as const }];
      const intent = paymentIntent(1, { oneTimeNonces: [ofRun, ofCharge], charge: "after" });
      await given.store.beginPayment(intent, paidCall());
      await given.store.ack(await claimOne(given.store));
      await given.store.failPayment(intent.key, "{}", "why");
      expect(await given.store.isNonceUsed(ofRun)).toBe(true);
      expect(await given.store.isNonceUsed(ofCharge)).toBe(false);
    });

    test("A failed payment that is settled after all takes its nonce back from an entry that has expired", async () => {
      const longer = oneTimeNonce("n", START_MS / 1000 + 200);
      await begin(1, longer);
      await given.store.failPayment(paymentIntent(1).key, "{}", "why");
      await begin(2, oneTimeNonce("n"));
      given.now += 61_000;
      await given.store.settlePayment(paymentIntent(1).key, "{}");
      expect(await given.store.isNonceUsed(longer)).toBe(true);
    });

    test("Failed payments that had one nonce after each other are settled after all at once", async () => {
      const [first, second] = [paymentIntent(1).key, paymentIntent(2).key];
      await begin(1, oneTimeNonce("n"));
      await given.store.failPayment(first, "{}", "why");
      await begin(2, oneTimeNonce("n", START_MS / 1000 + 200));
      await given.store.failPayment(second, "{}", "why");
      const settled = [first, second].map((key) => given.store.settlePayment(key, "{}"));
      expect(await Promise.all(settled)).toMatchObject([{ changed: true }, { changed: true }]);
      expect(await given.store.isNonceUsed(oneTimeNonce("n"))).toBe(true);
    });

    test("A failed payment that is settled after all takes its nonce back before a payment that begins next", async () => {
      await begin(1, oneTimeNonce("n"));
      await given.store.failPayment(paymentIntent(1).key, "{}", "why");
      const settling = given.store.settlePayment(paymentIntent(1).key, "{}");
      expect(await begin(2, oneTimeNonce("n"))).toEqual({ kind: "nonce_used", key: "n" });
      expect(await settling).toMatchObject({ changed: true });
    });

    test("Exactly one of 50 uses of a nonce without a payment is the first, until it expires", async () => {
      const sealed = oneTimeNonce("sealed");
      const uses = await Promise.all(Array.from({ length: 50 }, () => given.store.useNonce(sealed)));
      expect(uses.filter(Boolean)).toHaveLength(1);
      await given.reopen();
      given.now = START_MS + 59_999;
      expect(await given.store.useNonce(sealed)).toBe(false);
      expect(await given.store.useNonce({ ...sealed, key: "another" })).toBe(true);
      given.now = START_MS + 60_001;
      expect(await given.store.useNonce(sealed)).toBe(false);
      expect(await given.store.useNonce({ ...sealed, expiresAt: START_MS / 1000 + 120 })).toBe(true);
    });
  });
}
