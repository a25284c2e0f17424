import { afterEach, describe, expect, test } from "vitest";
import type { PaymentIntent } from "../../../../src/core/payment.ts";
import { ChargeCounter } from "../../../../src/parts/channels/charge-counter.ts";
import type { ChannelLedger } from "../../../../src/parts/channels/store/ledger.ts";
import { CHANNELS } from "../../../../src/parts/channels/store/module.ts";
import { channelSums } from "../../../../src/parts/channels/store/totals.ts";
import type { ClaimedCall } from "../../../../src/store/contract/work-queue.ts";
import { expectBalance, type Given } from "../../../store/contract/given.ts";
import { claimCalls, claimOne, NETWORK, paidCall, paymentIntent } from "../../../store/store-fixtures.ts";

/** ID of the channel that payments come from by default. */
export const CHANNEL = `0x${"c".repeat(64)}`;
const ID = CHANNEL;
const FIRST_PAGE = { isUrgent: false, after: undefined, limit: 10 } as const;

/** Accounts of the channels. */
export const PARTIES = { payer: `0x${"d".repeat(40)}`, receiver: `0x${"E".repeat(40)}` };

/** A payment of 10 by a voucher, with a deposit if one is given. */
export function inChannel(
  number: number,
  cumulative: number,
  more: { deposit?: string; onFailure?: string; channelId?: string; chargesBack?: true } = {},
) {
  const { deposit, onFailure, channelId = ID, chargesBack } = more;
  const voucher = { channelId, maxClaimableAmount: String(cumulative), signature: "0xA1" };
  const payload = { channelConfig: PARTIES, voucher, ...(deposit && { deposit: { amount: deposit } }) };
  return paymentIntent(number, {
    ...{ transferMethod: "channel", amount: "10", payload: JSON.stringify({ payload }) },
    ...(onFailure && { onFailure }),
    ...(chargesBack && { chargesBack, onFailure: "refund" }),
    ...(deposit === undefined && { settlement: `{"transaction":""}` }),
  });
}

/** Buys calls from a channel of a store. */
export function channelsOf(given: Given) {
  const ledger = () => given.store.of(CHANNELS);
  const find = () => ledger().findChannel(ID);
  const begin = (intent: PaymentIntent) => given.store.beginPayment(intent, paidCall());
  const count = async () => {
    for (const { channelId, ...charges } of await ledger().listUncounted({ limit: 100 }))
      await ledger().countCharges(channelId, charges);
    return find();
  };

  /** Buys a call, whose payment is settled. @returns its call ID */
  async function buy(intent: PaymentIntent): Promise<number> {
    const begun = await begin(intent);
    if (begun.kind !== "begun") throw new Error(JSON.stringify(begun));
    await given.store.settlePayment(intent.key, "{}", "1");
    return begun.callId;
  }

  return { ledger, find, begin, count, buy };
}

export function describeChannels(given: Given): void {
  const { ledger, find, begin, count, buy } = channelsOf(given);

  describe("channels", () => {
    // Whatever happened, the sums are those of the rows.
    afterEach(async () => {
      const rows = await ledger().listChannels(NETWORK, { after: "", limit: 100 });
      const sum = (name: "balance" | "charged" | "final" | "claimed" | "lost") =>
        rows.reduce((all, row) => all + BigInt(row[name]), 0n);
      expect(channelSums(await given.store.totals())).toMatchObject(
        rows.slice(0, 1).map(({ status, due_since }) => ({
          channels: [[status, rows.length]],
          deposited: sum("balance"),
          ...{ charged: sum("charged"), final: sum("final"), claimed: sum("claimed"), lost: sum("lost") },
          oldestDueAt: due_since ?? undefined,
        })),
      );
    });

    test("A voucher, its charge and its payment are one write, and a second payment with it does not begin", async () => {
      await buy(inChannel(1, 10, { deposit: "100" }));
      await count();
      await given.store.ack(await claimOne(given.store));
      expect((await begin(inChannel(2, 20))).kind).toBe("begun");
      // The same write has settled it, and queued its call.
      expect(await given.store.findPayment(inChannel(2, 20).key)).toMatchObject({
        state: "settled",
        settlement: `{"transaction":""}`,
      });
      await given.store.ack(await claimOne(given.store));
      await expectBalance(given.store);
      expect(await given.store.revenue({ since: 0, bucketMs: 3_600_000 })).toMatchObject([
        { payments: 2, amount: 20n },
      ]);
      expect(await find()).toMatchObject({ base: "20", charged: "20", balance: "100", deposits: 0 });
      const second = await begin(inChannel(3, 20));
      expect(second).toMatchObject({ kind: "not_taken" });
      expect(JSON.parse((second as { reason: string }).reason)).toMatchObject({ channel: { base: "20" } });
      expect(await given.store.findPayment(inChannel(3, 20).key)).toBeUndefined();
      expect((await begin(inChannel(2, 20))).kind).toBe("payment_known");
    });

    test("What a metered call has not used is charged back below its voucher", async () => {
      const chargesBack = true;
      await buy(inChannel(1, 10, { deposit: "100", chargesBack }));
      await count();
      await buy(inChannel(2, 20, { chargesBack }));
      await buy(inChannel(3, 30, { chargesBack }));
      const calls = await claimCalls(given.store);
      expect(await given.store.ceilings(calls.map(({ callId }) => callId))).toEqual(["10", "10", "10"]);
      const [first, second, third] = calls as [ClaimedCall, ClaimedCall, ClaimedCall];
      await given.store.ack(first, undefined, { units: "3" });
      await given.store.ack(second, undefined, { basisPoints: 10_000 });
      await given.store.ack(third, undefined, { units: "0" });
      // A call that has used nothing frees its voucher.
      expect(await count()).toMatchObject({ base: "20", charged: "13", final: "13", balance: "100" });
      expect(await ledger().countReturned(ID, "30")).toBe(1);
      expect(await ledger().findCharge(first.callId)).toMatchObject({ state: "kept", used: "3" });
      expect(await given.store.findCall(calls[0]?.callId ?? 0)).toMatchObject({
        charge: { state: "settled", ceiling: "10", amount: "3" },
      });
      await expectBalance(given.store);
    });

    test("Payments at once with one voucher begin once", async () => {
      await buy(inChannel(1, 10, { deposit: "100" }));
      await count();
      const begun = await Promise.all([2, 3, 4].map((number) => begin(inChannel(number, 20))));
      expect(begun.map(({ kind }) => kind).sort()).toEqual(["begun", "not_taken", "not_taken"]);
      expect(await find()).toMatchObject({ base: "20", charged: "20" });
    });

    test("A deposit counts once its payment is settled, and a failed one leaves nothing charged", async () => {
      const intent = inChannel(1, 10, { deposit: "100" });
      await begin(intent);
      expect(await count()).toMatchObject({ balance: "0", deposits: 1 });
      expect(await begin(inChannel(2, 20))).toMatchObject({ kind: "not_taken" });
      await given.store.failPayment(intent.key, "{}", "the deposit was not made");
      expect(await count()).toMatchObject({ balance: "0", deposits: 0, charged: "0", base: "0" });
      await buy(inChannel(3, 10, { deposit: "50" }));
      expect(await count()).toMatchObject({ balance: "50", charged: "10" });
    });

    test("A deposit that is not decided does not keep the charges of other channels from being counted", async () => {
      await begin(inChannel(1, 10, { deposit: "100", channelId: `0x${"b".repeat(64)}` }));
      const callId = await buy(inChannel(2, 10, { deposit: "50" }));
      expect(await ledger().listUncounted({ limit: 1 })).toMatchObject([
        { channelId: ID, callIds: [callId] },
      ]);
    });

    test("A charge that cannot be counted does not keep the charges of other channels from their turn", async () => {
      const closed = inChannel(1, 10, { deposit: "100", channelId: `0x${"b".repeat(64)}` });
      await begin(closed);
      // No chain shows the deposit.
      await given.store.settlePayment(closed.key, "{}", undefined);
      await buy(inChannel(2, 10, { deposit: "50" }));
      const counter = new ChargeCounter(ledger(), 1);
      await counter.countNext();
      expect(await find()).toMatchObject({ balance: "0" });
      await counter.countNext();
      expect(await find()).toMatchObject({ balance: "50", deposits: 0 });
    });

    test("A deposit that is made after its payment failed sells nothing, and counts once the chain's balance has it", async () => {
      const intent = inChannel(1, 10, { deposit: "100" });
      await begin(intent);
      await given.store.failPayment(intent.key, "{}", "the deposit was not made");
      await count();
      // The voucher pays for another call, with another deposit.
      await buy(inChannel(2, 10, { deposit: "50" }));
      await count();
      for (const state of ["watched", "unresolved"] as const)
        expect(await given.store.listUndecided({ state, limit: 10 })).toEqual([]);
      expect(await given.store.settlePayment(intent.key, "{}", "7")).toMatchObject({ kind: "not_open" });
      const closing = { as: "paid", by: "ada", note: "seen" } as const;
      expect(await given.store.closePayment(intent.key, closing)).toMatchObject({ kind: "not_open" });
      expect(await claimCalls(given.store)).toHaveLength(1);
      const chain = { balance: "150", totalClaimed: "0", refundNonce: "0", withdrawAt: 0, block: 9 };
      expect(await ledger().seeChannel(ID, chain)).toMatchObject({ balance: "150", charged: "10" });
      await expectBalance(given.store);
    });

    test("A call that succeeds is claimed, a call that fails is charged back once, and the journal balances", async () => {
      await buy(inChannel(1, 10, { deposit: "100" }));
      await given.store.ack(await claimOne(given.store));
      await count();
      const callId = await buy(inChannel(2, 20, { onFailure: "refund" }));
      await given.store.fail(await claimOne(given.store), "no ink");
      await buy(inChannel(3, 30));
      await given.store.fail(await claimOne(given.store), "no ink");
      const sums = { base: "30", charged: "20", final: "20", claimed: "0", kept: "30" };
      expect(await count()).toMatchObject(sums);
      expect(await count()).toMatchObject(sums);
      expect((await ledger().findCharge(callId))?.state).toBe("returned");
      expect(await given.store.retryDeadLetter(callId)).toBe("buyer_paid_back");
      expect(await ledger().listDueChannels(NETWORK, FIRST_PAGE)).toMatchObject([{ channel_id: ID }]);
      await expectBalance(given.store);
    });

    test("The base falls to the voucher that stands, and the same voucher begins another payment", async () => {
      await buy(inChannel(1, 10, { deposit: "100" }));
      await count();
      await buy(inChannel(2, 20));
      await buy(inChannel(3, 30, { onFailure: "refund" }));
      await buy(inChannel(4, 40, { onFailure: "refund" }));
      const calls = await claimCalls(given.store);
      for (const call of calls.slice(2)) await given.store.fail(call, "no ink");
      expect(await count()).toMatchObject({ base: "20", charged: "20", signed: "40" });
      expect(await ledger().countReturned(ID, "40")).toBe(1);
      expect(await begin(inChannel(5, 40))).toMatchObject({ kind: "not_taken" });
      expect(await begin(inChannel(6, 30, { onFailure: "refund" }))).toMatchObject({ kind: "begun" });
      expect(await find()).toMatchObject({ base: "30", charged: "30" });
      await expectBalance(given.store);
    });

    test("A charge that was charged back is forgotten with its payment, unless vouchers are still counted by it", async () => {
      await buy(inChannel(1, 10, { deposit: "100" }));
      await given.store.ack(await claimOne(given.store));
      await count();
      const failOne = async (number: number, cumulative: number) => {
        const callId = await buy(inChannel(number, cumulative, { onFailure: "refund" }));
        await given.store.fail(await claimOne(given.store), "no ink");
        await given.store.dropDeadLetter(callId);
        await count();
        return callId;
      };
      const below = await failOne(2, 20);
      const kept = await buy(inChannel(3, 20));
      await given.store.ack(await claimOne(given.store));
      const above = await failOne(4, 30);
      const states = () =>
        Promise.all([below, kept, above].map(async (callId) => (await ledger().findCharge(callId))?.state));
      expect(await states()).toEqual(["returned", "kept", "returned"]);
      given.now += 3 * 86_400_000;
      for (const kind of ["results", "calls", "payments"] as const)
        await given.store.prune({ kind, ageMs: 86_400_000, after: 0 });
      expect(await given.store.findCall(below)).toBeUndefined();
      expect(await states()).toEqual([undefined, "kept", "returned"]);
      expect(await ledger().countReturned(ID, "30")).toBe(1);
    });

    test("Channels to claim are listed the oldest first, page after page, and urgent channels by themselves", async () => {
      const ids = ["1", "2", "3"].map((digit) => `0x${digit.repeat(64)}`);
      for (const [i, channelId] of ids.entries()) {
        given.now += i;
        await buy(inChannel(i, 10, { deposit: "100", channelId }));
        await given.store.ack(await claimOne(given.store));
        await count();
      }
      const list = async (page: Partial<Parameters<ChannelLedger["listDueChannels"]>[1]>) =>
        (await ledger().listDueChannels(NETWORK, { ...FIRST_PAGE, ...page })).map((row) => row.channel_id);
      const placeOf = async (channelId = "") => ({
        channelId,
        dueSince: (await ledger().findChannel(channelId))?.due_since ?? 0,
      });
      expect(await list({ limit: 2 })).toEqual(ids.slice(0, 2));
      expect(await list({ after: await placeOf(ids[1]) })).toEqual(ids.slice(2));
      expect(await list({ isUrgent: true })).toEqual([]);
      await ledger().claimSoon(ids.slice(1, 2), { by: "ada", note: "" });
      const chain = { balance: "100", totalClaimed: "0", refundNonce: "0", withdrawAt: 9, block: 1 };
      await ledger().seeChannel(ids[0] ?? "", chain);
      expect(await list({ isUrgent: true })).toEqual(ids.slice(0, 2));
      expect(await list({ isUrgent: true, after: await placeOf(ids[0]) })).toEqual(ids.slice(1, 2));
      await ledger().seeChannel(ids[0] ?? "", { ...chain, withdrawAt: 0, block: 2 });
      expect(await list({ isUrgent: true })).toEqual(ids.slice(1, 2));
    });

    test("A claim is noted before it is made, and the chain says what was claimed", async () => {
      await buy(inChannel(1, 10, { deposit: "100" }));
      await given.store.ack(await claimOne(given.store));
      await count();
      expect(await ledger().askClaims([ID])).toMatchObject([{ asked: "10", final: "10" }]);
      const chain = { balance: "100", totalClaimed: "10", refundNonce: "0", withdrawAt: 0, block: 1 };
      expect(await ledger().seeChannel(ID, chain)).toMatchObject({
        claimed: "10",
        due_since: null,
        status: "open",
      });
      expect(await ledger().askClaims([ID])).toEqual([]);
      expect(await ledger().listDueChannels(NETWORK, FIRST_PAGE)).toEqual([]);
      expect(await ledger().seeChannel(ID, { ...chain, totalClaimed: "11" })).toMatchObject({
        status: "stopped",
      });
    });

    test("What a withdrawal has taken before it was claimed is lost, and the channel sells again", async () => {
      await buy(inChannel(1, 10, { deposit: "100" }));
      await given.store.ack(await claimOne(given.store));
      await count();
      const chain = { balance: "100", totalClaimed: "0", refundNonce: "0", withdrawAt: 9, block: 1 };
      expect(await ledger().seeChannel(ID, chain)).toMatchObject({ status: "withdrawing", lost: "0" });
      const ended = { ...chain, balance: "4", withdrawAt: 0, block: 2 };
      expect(await ledger().seeChannel(ID, ended)).toMatchObject({
        ...{ status: "open", balance: "4", final: "10", lost: "6" },
      });
      expect(await ledger().askClaims([ID])).toMatchObject([{ asked: "4" }]);
      expect(await ledger().seeChannel(ID, { ...ended, totalClaimed: "4" })).toMatchObject({
        ...{ claimed: "4", due_since: null, status: "open" },
      });
      expect(await ledger().askClaims([ID])).toEqual([]);
      expect(await begin(inChannel(2, 20))).toMatchObject({ kind: "not_taken" });
      expect(await begin(inChannel(3, 20, { deposit: "10" }))).toMatchObject({ kind: "begun" });
    });

    test("A refund is begun once, and ends when the chain shows it", async () => {
      await buy(inChannel(1, 10, { deposit: "100" }));
      await count();
      const newest = { refundNonce: "0", balance: "100", withdrawAt: 0 };
      const [first, second] = await Promise.all([
        ledger().beginChannelRefund(ID, { amount: undefined, chain: newest }),
        ledger().beginChannelRefund(ID, { amount: "1", chain: newest }),
      ]);
      expect([first, second]).toMatchObject([{ refund: { amount: "90" } }, { refund: { amount: "90" } }]);
      expect(await ledger().listRefunding(NETWORK, 10)).toMatchObject([{ channel_id: ID }]);
      const chain = { balance: "10", totalClaimed: "0", refundNonce: "0", withdrawAt: 0, block: 1 };
      expect(await ledger().endChannelRefund(ID, chain, undefined)).toBeUndefined();
      const paid = await ledger().endChannelRefund(ID, { ...chain, refundNonce: "1" }, "0xf");
      expect(paid).toMatchObject({ status: "open", balance: "10" });
      expect(await ledger().listRefunding(NETWORK, 10)).toEqual([]);
    });

    test("A request that was paid back gets its first outcome, and each request its own", async () => {
      await buy(inChannel(1, 10, { deposit: "100" }));
      await count();
      const at = (refundNonce: string, balance: string) => ({ refundNonce, balance, withdrawAt: 0 });
      const ask = (request: string, chain: ReturnType<typeof at>) =>
        ledger().beginChannelRefund(ID, { amount: "1", chain, request });
      const end = (request: string, chain: ReturnType<typeof at>, transaction: string) =>
        ledger().endChannelRefund(ID, { ...chain, totalClaimed: "0", block: 1 }, transaction, request);
      expect(await ledger().findChannelRefund(ID, "10:1")).toBeUndefined();
      expect(await ask("10:1", at("0", "100"))).toMatchObject({ kind: "refunding" });
      expect(await ledger().findChannelRefund(ID, "10:1")).toMatchObject({ state: "sending" });
      expect(await ask("11:1", at("0", "100"))).toMatchObject({ refund: { request: "10:1" } });
      expect(await end("11:1", at("1", "99"), "0xe")).toBeUndefined();
      expect(await end("10:1", at("1", "99"), "0xf")).toMatchObject({ status: "open", balance: "99" });
      const first = { nonce: "0", state: "done", transaction: "0xf", after: { balance: "99" } };
      expect(await ask("10:1", at("1", "99"))).toMatchObject({ kind: "paid", refund: first });
      expect(await ask("11:1", at("1", "99"))).toMatchObject({ refund: { nonce: "1", request: "11:1" } });
      expect(await end("11:1", at("2", "98"), "0xd")).toMatchObject({ balance: "98" });
      expect(await ledger().findChannelRefund(ID, "10:1")).toMatchObject(first);
    });
  });
}
