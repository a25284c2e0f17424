import { describe, expect, test } from "vitest";
import { REFUNDS } from "../../src/parts/refunds/store/module.ts";
import type { ClaimedCall } from "../../src/store/contract/work-queue.ts";
import { CHANNEL, channelsOf, inChannel } from "../parts/channels/store/store-contract.ts";
import { expectBalance, type Given } from "../store/contract/given.ts";
import { claimCalls, claimOne, NETWORK } from "../store/store-fixtures.ts";

const BY = { by: "ada", note: "no ink" };
const APPROVED = { as: "approved", ...BY } as const;
const DECLINED = { as: "declined", ...BY } as const;

/** Tests of calls of channels whose charges are refunds, for every kind of store. */
export function describeRefundsInChannels(given: Given): void {
  const { ledger, count, buy } = channelsOf(given);
  const refunds = () => given.store.of(REFUNDS);
  const sendable = () => refunds().listOpenRefunds(NETWORK, { state: "owed", limit: 10 });

  /** Buys a call that fails, and for which the operator is asked. @returns its call ID */
  async function fail(): Promise<number> {
    await buy(inChannel(1, 10, { deposit: "100" }));
    await given.store.ack(await claimOne(given.store));
    await count();
    const callId = await buy(inChannel(2, 20, { onFailure: "ask" }));
    await given.store.fail(await claimOne(given.store), "no ink");
    return callId;
  }

  describe("refunds in channels", () => {
    test("A charge stays until the operator approves, and is charged back without a transaction", async () => {
      const callId = await fail();
      expect(await count()).toMatchObject({ base: "20", charged: "20", final: "10" });
      await expectBalance(given.store);
      expect(await refunds().decideRefund(callId, APPROVED)).toMatchObject({
        kind: "decided",
        refund: { state: "refunded", transaction: undefined },
      });
      expect(await sendable()).toEqual([]);
      expect(await count()).toMatchObject({ base: "10", charged: "10", final: "10" });
      expect(await given.store.retryDeadLetter(callId)).toBe("buyer_paid_back");
      expect(await refunds().decideRefund(callId, DECLINED)).toMatchObject({ kind: "not_open" });
      await expectBalance(given.store);
    });

    test("A charge that the operator keeps is final, and if the operator approves its refund later, a transaction sends it", async () => {
      const callId = await fail();
      await refunds().decideRefund(callId, DECLINED);
      expect(await count()).toMatchObject({ base: "20", charged: "20", final: "20" });
      await refunds().decideRefund(callId, APPROVED);
      expect(await count()).toMatchObject({ charged: "20", final: "20" });
      expect(await sendable()).toMatchObject([{ callId, amount: "10", isApproved: true }]);
      await expectBalance(given.store);
    });

    test("A call that runs again is charged once more, and the operator decides again about its failure", async () => {
      const callId = await fail();
      expect(await given.store.retryDeadLetter(callId)).toBe("retried");
      expect((await ledger().findCharge(callId))?.state).toBe("open");
      await given.store.fail(await claimOne(given.store), "no paper");
      expect((await ledger().findCharge(callId))?.state).toBe("asked");
      await refunds().decideRefund(callId, APPROVED);
      expect(await count()).toMatchObject({ charged: "10", final: "10" });
      await expectBalance(given.store);
    });

    test("What a call has not used is owed as a refund if it was claimed before the call ended", async () => {
      const chargesBack = true;
      const one = await buy(inChannel(1, 10, { deposit: "100", chargesBack }));
      await count();
      const callIds = [one, await buy(inChannel(2, 20, { chargesBack }))];
      const chain = { balance: "100", totalClaimed: "0", refundNonce: "0", withdrawAt: 9, block: 1 };
      await ledger().seeChannel(CHANNEL, chain);
      expect(await ledger().makeFinal(CHANNEL, callIds)).toMatchObject({ final: "20", charged: "20" });
      const [first, second] = (await claimCalls(given.store)) as [ClaimedCall, ClaimedCall];
      await given.store.ack(first, undefined, { units: "4" });
      await given.store.fail(second, "no ink");
      expect(await count()).toMatchObject({ final: "20", charged: "20" });
      expect(await sendable()).toMatchObject([
        { callId: first.callId, amount: "6" },
        { callId: second.callId, amount: "10" },
      ]);
      await expectBalance(given.store);
    });
  });
}
