import { expect, test } from "vitest";
import { CALLBACK_URL, type Callback } from "../../src/parts/callbacks/store/ledger.ts";
import { REFUNDS } from "../../src/parts/refunds/store/module.ts";
import { BUYER, callbacksOf, dataOf, OPERATOR } from "../parts/callbacks/store/store-contract.ts";
import type { Given } from "../store/contract/given.ts";
import { claimOne, newTransaction, paymentIntent } from "../store/store-fixtures.ts";

/** Whom refunds call back, in every kind of store. */
export function describeRefundsInCallbacks(given: Given): void {
  const { want, buy, all, told } = callbacksOf(given);

  test("A failed call has callbacks about the dead letter, the owed refund, its end, and the refund that was made", async () => {
    await want(["refund.owed", "call.finished", "dead_letter"]);
    const callId = await buy(1, { notes: { [CALLBACK_URL]: BUYER }, onFailure: "refund" });
    await given.store.fail(await claimOne(given.store), "no ink");
    const failed = ["*call.finished failed", "call.finished failed", "dead_letter", "refund.owed"];
    expect((await told()).toSorted()).toEqual(failed);
    const owed = (await all()).find(({ event }) => event === "refund.owed");
    expect(owed && dataOf(owed)).toMatchObject({
      call_id: callId,
      amount: "3264000",
      waits_for_approval: false,
    });
    given.now += 1;
    await given.store.of(REFUNDS).sendRefund(callId, 1, newTransaction(1));
    await given.store.of(REFUNDS).endRefund(callId, newTransaction(1).reference, {
      state: "sent",
      blockNumber: "1",
      transaction: "0x1",
      account: "0xaccount",
    });
    expect((await told()).slice(4).toSorted()).toEqual([
      "*call.finished refunded",
      "*refund.sent",
      "call.finished refunded",
    ]);
    await given.store.dropDeadLetter(callId);
    expect(await told()).toHaveLength(7);
  });

  test("A refund has callbacks to operator and buyer about each failed attempt and about its transaction", async () => {
    await want(["refund.sent", "refund.failed"]);
    const callId = await buy(1, { notes: { [CALLBACK_URL]: BUYER }, onFailure: "refund" });
    await given.store.fail(await claimOne(given.store), "no ink");
    const { reference } = newTransaction(1);
    const both = async (event: string) => {
      const made = (await all()).filter((one) => one.event === event).toReversed();
      const of = (isBuyers: boolean) => made.find((one) => one.isBuyers === isBuyers) as Callback;
      return { operators: of(false), buyers: of(true) };
    };
    await given.store.of(REFUNDS).sendRefund(callId, 1, newTransaction(1));
    given.now += 1;
    const reason = "the payer is blocked";
    await given.store.of(REFUNDS).endRefund(callId, reference, { state: "failed", reason });
    const { network, asset, payer } = paymentIntent(1).key;
    const refund = {
      call_id: callId,
      origin: "x402",
      network,
      asset,
      symbol: "USDC",
      amount: "3264000",
      payer,
    };
    const failed = await both("refund.failed");
    expect(failed.operators).toMatchObject({ callId, at: given.now, url: OPERATOR, state: "pending" });
    expect(failed.buyers).toMatchObject({ callId, at: given.now, url: BUYER, host: "buyer.example:8443" });
    expect(dataOf(failed.operators)).toEqual({ ...refund, reason });
    expect(dataOf(failed.buyers)).toEqual(refund);

    given.now += 1;
    await given.store.of(REFUNDS).decideRefund(callId, { as: "approved", by: "ada", note: "again" });
    await given.store.of(REFUNDS).sendRefund(callId, 2, newTransaction(2));
    given.now += 1;
    const end = { state: "sent", blockNumber: "1", transaction: "0x1", account: "0xaccount" } as const;
    for (const _ of [1, 2]) await given.store.of(REFUNDS).endRefund(callId, newTransaction(2).reference, end);
    const sent = await both("refund.sent");
    expect(dataOf(sent.operators)).toEqual({ ...refund, transaction: "0x1" });
    expect(dataOf(sent.buyers)).toEqual({ ...refund, transaction: "0x1" });
    expect((await told()).filter((text) => text.includes("refund"))).toHaveLength(5);
  });

  test("A dead letter that is retried has a callback about the owed refund at each of its ends", async () => {
    await want(["call.finished", "refund.owed"]);
    const callId = await buy(1, { onFailure: "ask" });
    for (const _ of [1, 2]) {
      await given.store.fail(await claimOne(given.store), "no ink");
      given.now += 1;
      await given.store.retryDeadLetter(callId);
    }
    await given.store.ack(await claimOne(given.store), {
      body: Buffer.from("42"),
      contentType: "text/plain",
    });
    const failed = ["call.finished failed", "refund.owed"];
    expect((await told()).slice(0, 2).toSorted()).toEqual(failed);
    expect((await told()).slice(2, 4).toSorted()).toEqual(failed);
    expect((await told()).slice(4)).toEqual(["call.finished succeeded"]);
  });
}
