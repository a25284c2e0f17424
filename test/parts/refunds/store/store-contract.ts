import { describe, expect, test } from "vitest";
import { REFUNDS } from "../../../../src/parts/refunds/store/module.ts";
import { refundSums } from "../../../../src/parts/refunds/store/queries.ts";
import { UNPROVEN } from "../../../../src/parts/refunds/store/rules.ts";
import { FINISHED_MS } from "../../../../src/parts/transactions/store/journal.ts";
import { TRANSACTIONS } from "../../../../src/parts/transactions/store/module.ts";
import { expectBalance, type Given, retryNow } from "../../../store/contract/given.ts";
import {
  claimCalls,
  claimOne,
  claimRequest,
  LEASE_MS,
  NETWORK,
  NO_BACKOFF,
  newTransaction,
  paidCall,
  paymentIntent,
  START_MS,
  signedTransaction,
} from "../../../store/store-fixtures.ts";

const BY_ADA = { by: "ada", note: "as promised" };
const APPROVE = { as: "approved", ...BY_ADA } as const;
const DECLINE = { as: "declined", ...BY_ADA } as const;

export function describeRefunds(given: Given): void {
  const refunds = () => given.store.of(REFUNDS);
  const journal = () => given.store.of(TRANSACTIONS);

  /** Begins and settles a payment. @returns its call ID */
  async function buy(number: number, onFailure: string): Promise<number> {
    const promise = onFailure === "keep" ? {} : { onFailure };
    const intent = paymentIntent(number, { ...promise, amount: `${10n ** 18n + BigInt(number)}` });
    const begun = await given.store.beginPayment(intent, paidCall());
    if (begun.kind !== "begun") throw new Error(`expected begun, got ${begun.kind}`);
    await given.store.settlePayment(intent.key, "{}");
    return begun.callId;
  }

  async function buyAndFail(number: number, onFailure: string): Promise<number> {
    const callId = await buy(number, onFailure);
    await given.store.fail(await claimOne(given.store), "no good");
    return callId;
  }

  const find = async (callId: number) =>
    (await refunds().listRefunds({ limit: 1, before: callId + 1 })).find((one) => one.callId === callId);
  const stateOf = async (callId: number) => (await find(callId))?.state;
  const open = (state: "owed" | "sending") => refunds().listOpenRefunds(NETWORK, { state, limit: 100 });
  const send = async (callId: number, attempt = 1) =>
    (await refunds().sendRefund(callId, attempt, newTransaction(callId * 10 + attempt))) !== undefined;
  const referenceOf = (callId: number, attempt = 1) => newTransaction(callId * 10 + attempt).reference;
  const fail = (callId: number, attempt = 1) =>
    refunds().endRefund(callId, referenceOf(callId, attempt), {
      state: "failed",
      reason: "the payer is blocked",
    });

  describe("refunds", () => {
    test("Are owed of what the authorization of a released payment moved, once, while the journal balances", async () => {
      const intent = paymentIntent(1, { amount: "1001", charge: "after" });
      const begun = await given.store.beginPayment(intent, paidCall());
      await given.store.fail(await claimOne(given.store), "no ink");
      expect(await refunds().listRefunds({ limit: 10 })).toEqual([]);
      const settlement = JSON.stringify({ success: false, transaction: "0x1", amount: "1001" });
      for (const isFirst of [true, false])
        expect(await given.store.contradictPayment(intent.key, "it moved", settlement)).toBe(isFirst);
      const { callId } = begun as { callId: number };
      const owed = { callId, state: "owed", amount: "1001", payer: intent.key.payer };
      expect(await open("owed")).toMatchObject([owed]);
      expect((await given.store.findCall(callId))?.additions).toMatchObject([
        {
          fields: { refund: { state: "owed", amount: "1001" } },
          state: "owed",
          goesOn: true,
          givesBack: true,
        },
      ]);
      expect(await given.store.totals()).toMatchObject({
        uncharged: 1,
        accounted: 0,
        sums: { refunds: [{ refunds: 1 }] },
      });
      await expectBalance(given.store);
    });

    test("Each way to make a dead letter owes its refund in the same write, once", async () => {
      const ways: ((callId: number) => Promise<unknown>)[] = [
        async () => given.store.fail(await claimOne(given.store), "no good"),
        async () => given.store.retry(await claimOne(given.store), { ...retryNow(), maxAttempts: 1 }),
        async () => {
          const released = { excused: false, maxAttempts: 1, backoff: NO_BACKOFF };
          await given.store.release(await claimOne(given.store), released);
          given.now += LEASE_MS;
          await given.store.expireLeases(1);
        },
        async () => {
          await claimOne(given.store);
          given.now += LEASE_MS;
          await given.store.expireLeases(1);
        },
        async () => {
          await claimOne(given.store);
          given.now += LEASE_MS;
          await given.store.claim(claimRequest({ maxAttempts: 1 }));
        },
        async () => {
          await given.store.retry(await claimOne(given.store), retryNow());
          await given.store.claim(claimRequest({ maxAttempts: 1 }));
        },
        async () => {
          await given.store.retry(await claimOne(given.store), retryNow());
          await given.store.claim(claimRequest({ maxAttempts: 1, jobIds: [7n] }));
        },
      ];
      for (const [number, deadLetter] of ways.entries()) {
        const callId = await buy(number, "refund");
        await deadLetter(callId);
        const { key, symbol, amount } = paymentIntent(number, { amount: `${10n ** 18n + BigInt(number)}` });
        const { network, asset, payer } = key;
        const times = { createdAt: given.now, updatedAt: given.now };
        expect(await given.store.findDeadLetter(callId)).toBeDefined();
        expect(await find(callId)).toEqual({
          ...{ callId, state: "owed", isApproved: true, attempt: 1, network, asset, symbol, payer, amount },
          ...times,
        });
        await expectBalance(given.store);
      }
      await given.reopen();
      expect((await open("owed")).map(({ amount }) => amount)).toEqual(
        ways.map((_, number) => `${10n ** 18n + BigInt(number)}`),
      );
    });

    test("A job that fails with an HTTP status is owed its refund, which no retry cancels", async () => {
      const callId = await buy(1, "refund");
      const asked = await buy(2, "ask");
      const { calls } = await given.store.claim(claimRequest());
      const result = { body: Buffer.from("no"), contentType: "text/plain", status: 500 };
      await Promise.all(calls.map((lease) => given.store.ack(lease, result)));
      expect(await find(callId)).toMatchObject({ state: "owed", isApproved: true, attempt: 1 });
      expect(await find(asked)).toMatchObject({ state: "owed", isApproved: false });
      expect(await given.store.findCall(callId)).toMatchObject({
        state: "failed",
        status: 500,
        additions: [{ state: "owed", goesOn: true, givesBack: true }],
      });
      expect((await given.store.findCall(asked))?.additions).toMatchObject([{ goesOn: false }]);
      expect(await given.store.retryDeadLetter(callId)).toBe("not_found");
      expect(await send(callId)).toBe(true);
      await expectBalance(given.store);
    });

    test("Nothing is owed for a job that succeeds, for money that is kept, and for webhooks", async () => {
      await buy(1, "refund");
      await given.store.ack(await claimOne(given.store));
      await buyAndFail(2, "keep");
      await given.store.accept(paidCall({ origin: "webhook" }));
      await given.store.fail(await claimOne(given.store), "no good");
      expect(await refunds().listRefunds({ limit: 10 })).toEqual([]);
      expect(await given.store.totals()).toMatchObject({ kept: 1, accounted: 0, sums: { refunds: [] } });
      await expectBalance(given.store);
    });

    test("The promise is kept with the payment, also after a restart", async () => {
      await buy(1, "ask");
      await buy(2, "keep");
      await given.reopen();
      expect(await given.store.findPayment(paymentIntent(1).key)).toMatchObject({ onFailure: "ask" });
      expect(await given.store.findPayment(paymentIntent(2).key)).toMatchObject({ onFailure: undefined });
    });

    test('A refund with on_failure = "ask", or of a payment that the operator closed, waits for the operator\'s approval', async () => {
      const asked = await buyAndFail(1, "ask");
      const intent = paymentIntent(2, { onFailure: "refund" });
      const begun = await given.store.beginPayment(intent, paidCall());
      await given.store.leavePaymentUnresolved(intent.key, "unclear");
      await given.store.closePayment(intent.key, { as: "paid", by: "ada", note: "seen" });
      await given.store.fail(await claimOne(given.store), "no good");
      const closed = begun.kind === "begun" ? begun.callId : 0;
      expect(await open("owed")).toEqual([]);
      for (const callId of [asked, closed]) {
        expect(await find(callId)).toMatchObject({ state: "owed", isApproved: false });
        expect(await send(callId)).toBe(false);
        given.now += 1;
        const decision = { ...APPROVE, at: given.now };
        const approved = { state: "owed", isApproved: true, attempt: 1, decision, updatedAt: given.now };
        expect(await refunds().decideRefund(callId, APPROVE)).toMatchObject({
          kind: "decided",
          refund: approved,
        });
        expect(await find(callId)).toMatchObject(approved);
        expect(await refunds().decideRefund(callId, APPROVE)).toMatchObject({ kind: "not_open" });
      }
      expect((await open("owed")).map(({ callId }) => callId)).toEqual([asked, closed]);
      expect(await refunds().decideRefund(999, APPROVE)).toEqual({ kind: "not_open", refund: undefined });
    });

    test("A refund whose transaction is lost waits for the operator, whose approval leaves it being sent", async () => {
      const callId = await buyAndFail(1, "refund");
      expect(await send(callId)).toBe(true);
      expect((await refunds().decideRefund(callId, APPROVE)).kind).toBe("not_open");
      const lost = { reason: "no blocks", transaction: "0xlost" };
      expect(
        await refunds().endRefund(callId, referenceOf(callId), { state: "lost", ...lost }),
      ).toMatchObject({ state: "sending", ...lost });
      expect((await refunds().decideRefund(callId, DECLINE)).kind).toBe("not_open");
      const { kind, refund } = await refunds().decideRefund(callId, APPROVE);
      expect(kind).toBe("decided");
      const reference = referenceOf(callId);
      expect(refund).toMatchObject({
        state: "sending",
        attempt: 1,
        reference,
        decision: { notMined: "0xlost" },
      });
      expect(refund).not.toMatchObject({ reason: expect.anything() });
      expect((await refunds().decideRefund(callId, APPROVE)).kind).toBe("not_open");
      const end = { state: "sent", transaction: "0xsent", blockNumber: "9", account: "0xa" } as const;
      expect(await refunds().endRefund(callId, reference, end)).toMatchObject({ state: "refunded" });
      await expectBalance(given.store);
    });

    test("A refund that waits says why, and can be left to the operator", async () => {
      const callId = await buyAndFail(1, "refund");
      expect(await refunds().holdRefund(callId, "no funds \0", { forOperator: false })).toBe(true);
      expect((await open("owed"))[0]?.reason).toContain("no funds");
      expect(await refunds().holdRefund(callId, "the chain does not show it", { forOperator: true })).toBe(
        true,
      );
      expect(await open("owed")).toEqual([]);
      expect(await refunds().holdRefund(callId, "again", { forOperator: true })).toBe(false);
      expect(await find(callId)).toMatchObject({ isApproved: false, reason: "the chain does not show it" });
      await refunds().decideRefund(callId, APPROVE);
      expect(await send(callId)).toBe(true);
      expect(await refunds().holdRefund(callId, "late", { forOperator: false })).toBe(false);
      expect((await open("sending"))[0]).toMatchObject({ reason: undefined });
    });

    test("An approval waives the proof of the payment only where the refund waits for that proof", async () => {
      const callId = await buyAndFail(1, "refund");
      const hold = (reason: string, forOperator = false) =>
        refunds().holdRefund(callId, reason, { forOperator });
      const decide = async (decision: typeof APPROVE | typeof DECLINE) => {
        const { kind, refund } = await refunds().decideRefund(callId, decision);
        return kind === "decided" ? { state: refund?.state, ...refund?.decision } : kind;
      };
      await hold("the refund account is short of tokens");
      expect(await decide(APPROVE)).toBe("not_open");
      await hold(`${UNPROVEN} yet: its logs lag behind`);
      // A refund that was declined needs the proof again.
      expect(await decide(DECLINE)).toMatchObject({ state: "declined" });
      expect(await decide(APPROVE)).toEqual({ state: "owed", ...APPROVE, at: given.now });
      expect(await find(callId)).toMatchObject({ reason: undefined });
      expect(await decide(APPROVE)).toBe("not_open");
      await hold(`${UNPROVEN}: it was cancelled`, true);
      expect(await decide(APPROVE)).toEqual({ state: "owed", ...APPROVE, waivesProof: true, at: given.now });
      // The chain was queried before the operator decided.
      expect(await hold(`${UNPROVEN} yet: its logs lag behind`)).toBe(false);
      expect(await hold("the refund account is short of tokens")).toBe(true);
      await given.reopen();
      expect((await open("owed"))[0]?.decision).toMatchObject({ waivesProof: true });
      await send(callId);
      await fail(callId);
      expect(await decide(APPROVE)).toMatchObject({ state: "owed", waivesProof: true });
      await send(callId, 2);
      await fail(callId, 2);
      expect(await decide(DECLINE)).toEqual({ state: "declined", ...DECLINE, at: given.now });
      expect(await decide(APPROVE)).toEqual({ state: "owed", ...APPROVE, at: given.now });
      await expectBalance(given.store);
    });

    test("Of many that send a refund exactly one does, and its transaction is queued in the same write", async () => {
      const callId = await buyAndFail(1, "refund");
      const sent = await Promise.all(Array.from({ length: 8 }, () => send(callId)));
      expect(sent.filter(Boolean)).toHaveLength(1);
      expect(await open("owed")).toEqual([]);
      const reference = referenceOf(callId);
      expect(await open("sending")).toMatchObject([{ callId, state: "sending", reference }]);
      expect(await journal().findTransactions(NETWORK, [reference])).toMatchObject([{ state: "queued" }]);
      expect(await refunds().decideRefund(callId, DECLINE)).toMatchObject({ kind: "not_open" });
      await expectBalance(given.store);
    });

    test("A refund ends once, by the transaction that it is being sent with", async () => {
      const callId = await buyAndFail(1, "refund");
      await send(callId);
      const end = {
        state: "sent",
        transaction: "0xabc",
        blockNumber: "9",
        account: "0xaccount",
      } as const;
      expect(await refunds().endRefund(callId, "refund-9-1", end)).toBeUndefined();
      given.now += 5;
      const refunded = { state: "refunded", transaction: "0xabc", updatedAt: given.now };
      expect(await refunds().endRefund(callId, referenceOf(callId), end)).toMatchObject(refunded);
      expect(await fail(callId)).toBeUndefined();
      await given.reopen();
      expect(await find(callId)).toMatchObject(refunded);
      for (const decision of [APPROVE, DECLINE])
        expect(await refunds().decideRefund(callId, decision)).toMatchObject({ kind: "not_open" });
      await expectBalance(given.store);
    });

    test("A failed refund is sent again only once it is approved, by a transaction of its own", async () => {
      const callId = await buyAndFail(1, "refund");
      await send(callId);
      expect(await fail(callId)).toMatchObject({ state: "refund_failed", reason: "the payer is blocked" });
      expect(await send(callId)).toBe(false);
      expect(await send(callId, 2)).toBe(false);
      const { refund } = await refunds().decideRefund(callId, APPROVE);
      expect(refund).toMatchObject({ state: "owed", isApproved: true, attempt: 2 });
      expect(refund).toMatchObject({ reference: undefined });
      expect(await send(callId, 1)).toBe(false);
      expect(await send(callId, 2)).toBe(true);
      expect(await fail(callId, 1)).toBeUndefined();
      await expectBalance(given.store);
    });

    test("A refund whose transaction was given up before it was signed is owed again, and sent by the same transaction", async () => {
      const callId = await buyAndFail(1, "refund");
      await send(callId);
      const reference = referenceOf(callId);
      await given.store.holdLock(NETWORK, "owner", 10_000);
      await journal().finishTransactions(NETWORK, "owner", [
        { reference, state: "dropped", reason: "no funds" },
      ]);
      const owed = await refunds().endRefund(callId, reference, { state: "unsigned", reason: "no funds \0" });
      expect(owed).toMatchObject({ state: "owed", isApproved: true, attempt: 1 });
      expect((await find(callId))?.reason).toContain("no funds");
      expect(await send(callId)).toBe(true);
      expect(await journal().findTransactions(NETWORK, [reference])).toMatchObject([{ state: "queued" }]);
      const short = await refunds().endRefund(callId, reference, { state: "unsigned" });
      expect(short).toMatchObject({ state: "owed", reason: "the refund account is short of tokens" });
    });

    test("A finished transaction is kept until its refund has ended", async () => {
      const callId = await buyAndFail(1, "refund");
      await send(callId);
      await given.store.holdLock(NETWORK, "owner", 10_000);
      const reference = referenceOf(callId);
      await journal().signTransactions(NETWORK, "owner", [signedTransaction(callId * 10 + 1, 0)]);
      await journal().finishTransactions(NETWORK, "owner", [
        { reference, state: "succeeded", hash: "0xhash0", blockNumber: "7" },
      ]);
      given.now += 10 * FINISHED_MS;
      await journal().queueTransaction(newTransaction(998));
      expect(await journal().findTransactions(NETWORK, [reference])).toHaveLength(1);
      await refunds().endRefund(callId, reference, {
        state: "sent",
        transaction: "0xhash0",
        blockNumber: "9",
        account: "0xaccount",
      });
      await journal().queueTransaction(newTransaction(999));
      expect(await journal().findTransactions(NETWORK, [reference])).toEqual([]);
    });

    test("A retry of the dead letter cancels what is owed or declined, and the next failure owes it again", async () => {
      const callId = await buyAndFail(1, "refund");
      expect(await given.store.retryDeadLetter(callId)).toBe("retried");
      expect(await find(callId)).toBeUndefined();
      expect(await send(callId)).toBe(false);
      expect(await refunds().decideRefund(callId, APPROVE)).toMatchObject({ kind: "not_open" });
      await expectBalance(given.store);
      given.now += 1;
      await given.store.fail(await claimOne(given.store), "no good");
      expect(await find(callId)).toMatchObject({ state: "owed", attempt: 1, createdAt: given.now });

      const declined = await buyAndFail(2, "ask");
      expect(await refunds().decideRefund(declined, DECLINE)).toMatchObject({
        kind: "decided",
        refund: { state: "declined" },
      });
      expect(await given.store.totals()).toMatchObject({
        kept: 0,
        accounted: 2,
        sums: {
          refunds: [
            { state: "declined", refunds: 1 },
            { state: "owed", refunds: 1 },
          ],
        },
      });
      await expectBalance(given.store);
      expect(await given.store.retryDeadLetter(declined)).toBe("retried");
      await given.store.ack(await claimOne(given.store));
      expect(await given.store.totals()).toMatchObject({
        kept: 0,
        sums: { refunds: [{ state: "owed", refunds: 1 }] },
      });
      await expectBalance(given.store);
    });

    test("A dead letter whose refund has begun is not retried", async () => {
      const callId = await buyAndFail(1, "refund");
      await send(callId);
      expect(await given.store.retryDeadLetter(callId)).toBe("buyer_paid_back");
      await fail(callId);
      expect(await given.store.retryDeadLetter(callId)).toBe("buyer_paid_back");
      await refunds().decideRefund(callId, DECLINE);
      expect(await given.store.retryDeadLetter(callId)).toBe("retried");
      // The reference of the attempt that failed is never used again.
      await given.store.fail(await claimOne(given.store), "no good");
      expect(await find(callId)).toMatchObject({ state: "owed", attempt: 2 });
      await send(callId, 2);
      await refunds().endRefund(callId, referenceOf(callId, 2), {
        state: "sent",
        transaction: "0xa",
        blockNumber: "9",
        account: "0xaccount",
      });
      expect(await given.store.retryDeadLetter(callId)).toBe("buyer_paid_back");
      expect(await claimCalls(given.store)).toEqual([]);
    });

    test("A refund that is sent while its dead letter is retried is one of both", async () => {
      for (let number = 1; number <= 10; number++) {
        const callId = await buyAndFail(number, "refund");
        const retrying = number % 2 === 0 ? given.store.retryDeadLetter(callId) : undefined;
        const [isSent, retried] = await Promise.all([
          send(callId),
          retrying ?? given.store.retryDeadLetter(callId),
        ]);
        expect(retried).toBe(isSent ? "buyer_paid_back" : "retried");
        expect(await stateOf(callId)).toBe(isSent ? "sending" : undefined);
        await claimCalls(given.store);
        await expectBalance(given.store);
      }
    });

    test("A dropped dead letter leaves its refund as it is", async () => {
      const callId = await buyAndFail(1, "refund");
      expect(await given.store.dropDeadLetter(callId)).toBe(true);
      expect(await open("owed")).toMatchObject([{ callId }]);
      expect(await send(callId)).toBe(true);
      await expectBalance(given.store);
    });

    test("Refunds are listed newest first by state and in pages, counted while open, and summed by token beyond 64 bits", async () => {
      const ids: number[] = [];
      for (const number of [1, 2, 3]) ids.push(await buyAndFail(number, "refund"));
      await send(ids[1] ?? 0);
      const { callId: first = 0 } = (await open("owed"))[0] ?? {};
      const after = { state: "owed", limit: 100, after: first } as const;
      expect((await refunds().listOpenRefunds(NETWORK, after)).map(({ callId }) => callId)).toEqual([ids[2]]);
      const list = async (filter: object) =>
        (await refunds().listRefunds({ limit: 10, ...filter })).map(({ callId }) => callId);
      expect(await list({})).toEqual(ids.toReversed());
      expect(await list({ state: "owed" })).toEqual([ids[2], ids[0]]);
      expect(await list({ limit: 1, before: ids[2] })).toEqual([ids[1]]);
      const { network, asset } = paymentIntent(1).key;
      const usdc = { network, asset, symbol: "USDC", oldestAt: START_MS };
      expect(refundSums(await given.store.totals())).toEqual([
        { ...usdc, state: "owed", refunds: 2, amount: 2n * 10n ** 18n + 4n },
        { ...usdc, state: "sending", refunds: 1, amount: 10n ** 18n + 2n },
      ]);
      expect(await refunds().countOpenRefunds()).toBe(3);
      await refunds().decideRefund(first, { as: "declined", by: "ada", note: "" });
      expect(await refunds().countOpenRefunds()).toBe(2);
    });
  });
}
