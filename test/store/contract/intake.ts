import { describe, expect, test } from "vitest";
import type { ClaimedCall } from "../../../src/store/contract/work-queue.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  LEASE_MS,
  paidCall,
  paymentIntent,
  START_MS,
  webhookCall,
} from "../store-fixtures.ts";
import { type Given, idsOf, MAX_PENDING, retryNow } from "./given.ts";

export function describeIntake(given: Given): void {
  describe("intake", () => {
    test("An accepted call is claimed with its bytes, its first attempt and its times", async () => {
      const callId = await acceptId(given.store, { body: Buffer.from([0, 255, 1]) });
      given.now += 5;
      const claimed = await claimOne(given.store);
      expect({ ...claimed, encoded: [...claimed.encoded] }).toEqual({
        callId,
        suspect: false,
        deferred: false,
        leaseToken: expect.stringMatching(/^[A-Za-z0-9_-]{22}$/),
        encoded: [0, 255, 1],
        attempt: 1,
        forgiven: 0,
        enqueuedAt: START_MS,
        leaseExpiresAt: START_MS + 5 + LEASE_MS,
      });
    });

    test("An empty body is kept as an empty body", async () => {
      await acceptId(given.store, { body: new Uint8Array() });
      expect((await claimOne(given.store)).encoded).toHaveLength(0);
    });

    test("Concurrently accepted bodies each stay with their own call", async () => {
      const ids = await Promise.all(
        Array.from({ length: MAX_PENDING }, (_, i) =>
          acceptId(given.store, { body: Buffer.from(`body ${i}`) }),
        ),
      );
      const claimed = await claimCalls(given.store, { limit: MAX_PENDING });
      expect(claimed.map(({ encoded }) => Buffer.from(encoded).toString())).toEqual(
        ids.map((_, i) => `body ${i}`),
      );
      expect(idsOf(claimed)).toEqual(ids);
    });

    test("Call IDs are positive, increase, and are never reused, not even after the last call is gone", async () => {
      const first = await acceptId(given.store);
      expect(first).toBeGreaterThan(0);
      await given.store.ack(await claimOne(given.store));
      await given.reopen();
      expect(await acceptId(given.store)).toBeGreaterThan(first);
    });

    test("Above max_pending work is refused until something is finished", async () => {
      for (let i = 0; i < MAX_PENDING; i += 1) await acceptId(given.store);
      expect(given.store.status()).toEqual({ writable: true, pending: MAX_PENDING, full: true });
      expect(await given.store.accept(webhookCall())).toEqual({ kind: "queue_full" });
      expect(await given.store.beginPayment(paymentIntent(1), paidCall())).toEqual({ kind: "queue_full" });
      expect(await given.store.findPayment(paymentIntent(1).key)).toBeUndefined();

      await given.store.ack(await claimOne(given.store, { limit: 1 }));
      expect(given.store.status()).toMatchObject({ writable: true, full: false });
      await acceptId(given.store);
    });

    test("Held, leased and delayed calls count towards max_pending, dead letters and failed payments do not; also after a restart", async () => {
      await given.store.beginPayment(paymentIntent(1), paidCall());
      for (let i = 1; i < MAX_PENDING; i += 1) await acceptId(given.store);
      const [dead, delayed] = (await claimCalls(given.store, { limit: 3 })) as [ClaimedCall, ClaimedCall];
      await given.store.retry(delayed, { ...retryNow(), delayMs: 1000 });
      expect(given.store.status().full).toBe(true);
      await given.reopen();
      expect(given.store.status().full).toBe(true);
      await given.store.fail(dead, "no good");
      expect(given.store.status().full).toBe(false);
      await given.store.retryDeadLetter(dead.callId);
      expect(given.store.status().full).toBe(true);
      expect(await given.store.retryDeadLetter(dead.callId)).toBe("not_found");
      await given.store.failPayment(paymentIntent(1).key, "{}", "why");
      expect(given.store.status().full).toBe(false);
      await given.reopen();
      await acceptId(given.store);
      expect(given.store.status().full).toBe(true);
    });

    test("At most max_pending of many accepts at once get in", async () => {
      const outcomes = await Promise.all(
        Array.from({ length: MAX_PENDING + 25 }, () => given.store.accept(webhookCall())),
      );
      expect(outcomes.filter(({ kind }) => kind === "accepted")).toHaveLength(MAX_PENDING);
    });
  });
}
