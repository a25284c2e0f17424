import { describe, expect, test } from "vitest";
import type { ClaimedCall } from "../../../src/store/contract/work-queue.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  claimRequest,
  LEASE_MS,
  NO_BACKOFF,
  paidCall,
  paymentIntent,
} from "../store-fixtures.ts";
import { failAll, type Given, idsOf, retryNow } from "./given.ts";

export function describeWorkListeners(given: Given): void {
  describe("listeners for work", () => {
    /** Number of calls that a claim made inside the listener gets. */
    async function claimedInListener(push: () => Promise<unknown>): Promise<number> {
      let claim: Promise<ClaimedCall[]> | undefined;
      const end = given.store.onWork(() => {
        claim ??= claimCalls(given.store);
      });
      const pushed = push();
      expect(claim).toBeDefined();
      await pushed;
      end();
      return (await claim)?.length ?? 0;
    }

    test("A claim that waits in a batch for later work is answered after that work is", async () => {
      const callId = await acceptId(given.store);
      await failAll(given.store);
      const order: string[] = [];
      const claimed = given.store.claim(claimRequest());
      const retried = given.store.retryDeadLetter(callId);
      void claimed.then(() => order.push("claimed"));
      void retried.then(() => order.push("retried"));
      expect(idsOf((await claimed).calls)).toEqual([callId]);
      expect(order).toEqual(["retried", "claimed"]);
    });

    test("A claim made in the listener gets the announced work", async () => {
      expect(await claimedInListener(() => acceptId(given.store))).toBe(1);
      await given.store.beginPayment(paymentIntent(1), paidCall());
      expect(await claimedInListener(() => given.store.settlePayment(paymentIntent(1).key, "{}"))).toBe(1);
      await given.store.beginPayment(paymentIntent(2), paidCall());
      await given.store.leavePaymentUnresolved(paymentIntent(2).key, "nobody knows");
      const closing = { as: "paid", by: "ada", note: "it was" } as const;
      expect(await claimedInListener(() => given.store.closePayment(paymentIntent(2).key, closing))).toBe(1);
      const callId = await acceptId(given.store);
      const lease = await claimOne(given.store);
      expect(
        await claimedInListener(() =>
          given.store.release(lease, { excused: true, maxAttempts: 3, backoff: NO_BACKOFF }),
        ),
      ).toBe(1);
      given.now += LEASE_MS;
      const again = (await claimCalls(given.store)).find((call) => call.callId === callId);
      if (again === undefined) throw new Error("the call is not due");
      expect(await claimedInListener(() => given.store.retry(again, { ...retryNow(), maxAttempts: 9 }))).toBe(
        1,
      );
      given.now += LEASE_MS;
      await failAll(given.store);
      expect(await claimedInListener(() => given.store.retryDeadLetter(callId))).toBe(1);
    });

    test("A removed listener is not called", async () => {
      let heard = 0;
      const end = given.store.onWork(() => {
        heard += 1;
      });
      await acceptId(given.store);
      expect(heard).toBeGreaterThan(0);
      end();
      heard = 0;
      await acceptId(given.store);
      expect(heard).toBe(0);
    });
  });
}
