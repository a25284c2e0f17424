import { describe, expect, test } from "vitest";
import { callerNonce, paidCall, paymentIntent, START_MS } from "../store-fixtures.ts";
import type { Given } from "./given.ts";

export function describeCallerNonces(given: Given): void {
  describe("caller nonces", () => {
    const begin = (number: number, nonce: ReturnType<typeof callerNonce>) =>
      given.store.beginPayment(paymentIntent(number, { callerNonce: nonce }), paidCall());

    test("Exactly one of 50 concurrent payments with one nonce begins, regardless of the caller's letter case", async () => {
      const upper = callerNonce("n", { caller: callerNonce("n").caller.toUpperCase() });
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, i) => begin(i + 1, i % 2 === 0 ? callerNonce("n") : upper)),
      );
      expect(outcomes.filter(({ kind }) => kind === "begun")).toHaveLength(1);
      expect(outcomes.filter(({ kind }) => kind === "caller_nonce_used")).toHaveLength(49);
      const totals = await given.store.totals();
      expect([totals.calls.held, totals.payments.intent]).toEqual([1, 1]);
    });

    test("A nonce is used up for its caller, service and job only, and is case-sensitive", async () => {
      await begin(1, callerNonce("n"));
      const others = [
        callerNonce("N"),
        callerNonce("n", { jobIndex: 8 }),
        callerNonce("n", { serviceId: 2n }),
        callerNonce("n", { caller: "0x70997970c51812dc3a010c7d01b50e0d17dc79c8" }),
      ];
      for (const [index, nonce] of others.entries()) {
        expect(await given.store.isCallerNonceUsed(nonce)).toBe(false);
        expect((await begin(index + 2, nonce)).kind).toBe("begun");
      }
    });

    test("A used nonce is remembered until its expiry, also after a restart", async () => {
      await begin(1, callerNonce("n"));
      await given.reopen();
      given.now = START_MS + 59_999;
      expect(await given.store.isCallerNonceUsed(callerNonce("n"))).toBe(true);
      expect((await begin(2, callerNonce("n"))).kind).toBe("caller_nonce_used");
      given.now = START_MS + 60_001;
      expect(await given.store.isCallerNonceUsed(callerNonce("n"))).toBe(false);
      expect((await begin(3, callerNonce("n", { expiresAt: START_MS / 1000 + 120 }))).kind).toBe("begun");
      expect(await given.store.isCallerNonceUsed(callerNonce("n"))).toBe(true);
    });

    test("An expired nonce is refused: it may have been used before", async () => {
      await begin(1, callerNonce("n"));
      given.now = START_MS + 60_000;
      expect((await begin(2, callerNonce("n"))).kind).toBe("caller_nonce_used");
      expect((await begin(3, callerNonce("never used"))).kind).toBe("caller_nonce_used");
      expect((await given.store.totals()).payments.intent).toBe(1);
    });

    test("A failed payment frees its nonce, but not that of the payment which took it over", async () => {
      await begin(1, callerNonce("n"));
      await given.store.failPayment(paymentIntent(1).key, "{}", "why");
      expect(await given.store.isCallerNonceUsed(callerNonce("n"))).toBe(false);

      await begin(2, callerNonce("n"));
      given.now += 61_000;
      await begin(3, callerNonce("n", { expiresAt: START_MS / 1000 + 200 }));
      await given.store.failPayment(paymentIntent(2).key, "{}", "why");
      expect(await given.store.isCallerNonceUsed(callerNonce("n"))).toBe(true);
    });

    test("A failed payment that is settled after all takes its nonce back from an entry that has expired", async () => {
      const longer = callerNonce("n", { expiresAt: START_MS / 1000 + 200 });
      await begin(1, longer);
      await given.store.failPayment(paymentIntent(1).key, "{}", "why");
      await begin(2, callerNonce("n"));
      given.now += 61_000;
      await given.store.settlePayment(paymentIntent(1).key, "{}");
      expect(await given.store.isCallerNonceUsed(longer)).toBe(true);
    });

    test("Exactly one of 50 uses of a nonce without a payment is the first, until it expires", async () => {
      const sealed = callerNonce("sealed", { caller: "sign-in-with-x" });
      const uses = await Promise.all(Array.from({ length: 50 }, () => given.store.useCallerNonce(sealed)));
      expect(uses.filter(Boolean)).toHaveLength(1);
      await given.reopen();
      given.now = START_MS + 59_999;
      expect(await given.store.useCallerNonce(sealed)).toBe(false);
      expect(await given.store.useCallerNonce({ ...sealed, nonce: "another" })).toBe(true);
      given.now = START_MS + 60_001;
      expect(await given.store.useCallerNonce(sealed)).toBe(false);
      expect(await given.store.useCallerNonce({ ...sealed, expiresAt: START_MS / 1000 + 120 })).toBe(true);
    });
  });
}
