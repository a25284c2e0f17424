import { describe, expect, test } from "vitest";
import { ACCEPTED_CALLS } from "../../../../src/parts/resend/store/module.ts";
import type { Given } from "../../../store/contract/given.ts";
import { acceptId, claimOne, paidCall, paymentIntent } from "../../../store/store-fixtures.ts";

export function describeAcceptedCalls(given: Given): void {
  const find = async (callId: number) => {
    const found = await given.store.of(ACCEPTED_CALLS).findAccepted(callId);
    return found && Buffer.from(found).toString();
  };

  describe("calls as they were accepted", () => {
    test("A waiting call, a call that a runner has and a dead letter are read as they were stored", async () => {
      const call = { metadata: { head: "metadata and " }, body: Buffer.from("body") };
      const callId = await acceptId(given.store, call);
      expect(await find(callId)).toBe("metadata and body");
      const lease = await claimOne(given.store);
      expect(await find(callId)).toBe("metadata and body");
      await given.store.fail(lease, "no ink");
      expect(await find(callId)).toBe("metadata and body");
    });

    test("Nothing is read of a call that is done, that waits for its payment, or that never was", async () => {
      const done = await acceptId(given.store);
      await given.store.ack(await claimOne(given.store));
      await given.store.beginPayment(paymentIntent(1), paidCall());
      expect(await Promise.all([done, done + 1, done + 2].map(find))).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
    });
  });
}
