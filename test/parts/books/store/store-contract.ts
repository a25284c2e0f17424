import { describe, expect, test } from "vitest";
import type { Movement, MovementGroup } from "../../../../src/parts/books/store/ledger.ts";
import { BOOKS } from "../../../../src/parts/books/store/module.ts";
import { TRANSACTIONS } from "../../../../src/parts/transactions/store/module.ts";
import { YOUNG_MS } from "../../../../src/store/contract/payment-journal.ts";
import type { Given } from "../../../store/contract/given.ts";
import {
  claimOne,
  NETWORK,
  newTransaction,
  paidCall,
  paymentIntent,
  START_MS,
  signedTransaction,
} from "../../../store/store-fixtures.ts";

const HASH = `0x${"ab".repeat(32)}`;
const SETTLEMENT = JSON.stringify({ success: true, transaction: HASH });
const OWNER = "one";
/** Days since 1970. */
export const TODAY = Math.floor(START_MS / 86_400_000);

/** Steps that tests of the books take at a store. */
export function booksOf(given: Given) {
  const movements = (until = Number.MAX_SAFE_INTEGER) =>
    given.store.of(BOOKS).listMovements({ after: { at: 0, id: 0 }, until, limit: 100 });
  const journal = () => given.store.of(TRANSACTIONS);

  async function begin(number: number, overrides: Parameters<typeof paymentIntent>[1] = {}): Promise<number> {
    const begun = await given.store.beginPayment(paymentIntent(number, overrides), paidCall());
    return begun.kind === "begun" ? begun.callId : 0;
  }

  function received(number: number, callId: number): Partial<Movement> {
    const { key, symbol, amount, decimals, payTo, serviceId, jobIndex, price, rate } = paymentIntent(number);
    return {
      kind: "payment",
      ...{ network: key.network, amount, decimals, account: payTo.toLowerCase(), counterparty: key.payer },
      token: { asset: key.asset, symbol },
      sale: { callId, serviceId, jobIndex, price, rate },
    };
  }
  const sums = (by: MovementGroup, from = TODAY - 40, to = TODAY + 40) =>
    given.store.of(BOOKS).sumMovements({ from, to, by });
  /** Queues a transaction, signs it, and records that it was mined. */
  async function mine(number: number, state: "succeeded" | "reverted", fee?: string): Promise<void> {
    const { store } = given;
    const { reference } = newTransaction(number);
    await journal().queueTransaction(newTransaction(number));
    await store.holdLock(NETWORK, OWNER, 1_000_000);
    await journal().signTransactions(NETWORK, OWNER, [signedTransaction(number, number)]);
    const end = { reference, state, hash: `0xhash${number}`, blockNumber: "77", ...(fee && { fee }) };
    await journal().finishTransactions(NETWORK, OWNER, [end]);
  }
  return { movements, sums, journal, begin, received, mine };
}

export function describeBooks(given: Given): void {
  const { movements, journal, begin, received, mine } = booksOf(given);

  describe("books", () => {
    test("A settled payment is one movement, with the time at which it was settled and what was true then", async () => {
      const callId = await begin(1, { rate: "3264.5", decimals: 6 });
      given.now += 1_000;
      await given.store.settlePayment(paymentIntent(1).key, SETTLEMENT, "9184");
      await given.store.settlePayment(paymentIntent(1).key, SETTLEMENT, "9185");
      const { sale, ...movement } = received(1, callId);
      expect(await movements()).toEqual([
        {
          id: expect.any(Number),
          ...movement,
          ...{ at: START_MS + 1_000, decimals: 6, transaction: HASH, block: "9184" },
          sale: { ...sale, rate: "3264.5" },
        },
      ]);
    });

    test("Unknown facts are absent", async () => {
      const callId = await begin(1);
      await given.store.settlePayment(paymentIntent(1).key, "not JSON");
      expect(await movements()).toEqual([{ id: expect.any(Number), at: START_MS, ...received(1, callId) }]);
    });

    test("A charge is a movement of what was charged, and a charge that moves nothing is not a movement", async () => {
      await begin(1, { charge: "used", amount: "1001" });
      await given.store.ack(
        await claimOne(given.store),
        { body: Buffer.from("1"), contentType: "a/b" },
        { units: "7" },
      );
      expect(await movements()).toEqual([]);
      await given.store.settlePayment(paymentIntent(1).key, SETTLEMENT);
      expect(await movements()).toMatchObject([{ kind: "charge", amount: "7" }]);
      await begin(2, { charge: "used", amount: "1001" });
      await given.store.fail(await claimOne(given.store), "no");
      await begin(3);
      await given.store.failPayment(paymentIntent(3).key, "{}", "not paid");
      await begin(4);
      await given.store.leavePaymentUnresolved(paymentIntent(4).key, "nobody knows");
      expect(await movements()).toHaveLength(1);
    });

    test("A payment that failed and turns out paid is a movement of the time at which that became known", async () => {
      await begin(1);
      await given.store.failPayment(paymentIntent(1).key, "{}", "not paid");
      given.now += 5_000;
      await given.store.settlePayment(paymentIntent(1).key, SETTLEMENT, "3");
      expect(await movements()).toMatchObject([{ at: START_MS + 5_000, kind: "payment", block: "3" }]);
    });

    test("A payment that was closed as paid is taken back when the chain contradicts it, and its own movement stays", async () => {
      const callId = await begin(1);
      await given.store.leavePaymentUnresolved(paymentIntent(1).key, "nobody knows");
      given.now += YOUNG_MS;
      const { key } = paymentIntent(1);
      await given.store.closePayment(key, { as: "paid", by: "ada", note: "seen" });
      const [closed] = await movements();
      expect(closed).toEqual({ id: expect.any(Number), at: given.now, ...received(1, callId) });
      given.now += 10;
      expect(await given.store.contradictPayment(key, "not paid")).toBe(true);
      expect(await given.store.contradictPayment(key, "not paid")).toBe(false);
      const taken = { ...received(1, callId), kind: "correction", amount: `-${paymentIntent(1).amount}` };
      expect(await movements()).toEqual([closed, { id: expect.any(Number), at: given.now, ...taken }]);
    });

    test("What the authorization of a released payment moved is added", async () => {
      const callId = await begin(1, { charge: "after" });
      await given.store.fail(await claimOne(given.store), "no ink");
      expect(await movements()).toEqual([]);
      const settlement = JSON.stringify({ success: false, transaction: "0x1", amount: "7" });
      await given.store.contradictPayment(paymentIntent(1).key, "it moved", settlement);
      expect(await movements()).toMatchObject([
        {
          sale: { callId },
          kind: "correction",
          amount: "7",
          transaction: "0x1",
          counterparty: paymentIntent(1).key.payer,
        },
      ]);
    });

    test("A transaction that was mined costs its fee once, even if it reverted; one of which the fee is unknown is left out", async () => {
      await mine(1, "reverted", "123456789012345678901");
      await journal().finishTransactions(NETWORK, OWNER, [
        {
          reference: newTransaction(1).reference,
          state: "reverted",
          hash: "0xhash1",
          blockNumber: "77",
          fee: "1",
        },
      ]);
      await mine(2, "succeeded");
      expect(await movements()).toMatchObject([
        { kind: "network_fee", amount: "-123456789012345678901", transaction: "0xhash1", block: "77" },
      ]);
    });

    test("Movements outlive their payments", async () => {
      const { store } = given;
      await begin(1);
      await store.settlePayment(paymentIntent(1).key, SETTLEMENT);
      await store.ack(await claimOne(store));
      const before = await movements();
      given.now += 100 * 86_400_000;
      for (const kind of ["results", "calls", "payments"] as const)
        await store.prune({ kind, ageMs: 1, after: 0 });
      expect(await store.findPayment(paymentIntent(1).key)).toBeUndefined();
      expect(await movements()).toEqual(before);
    });

    test("Pages are in the order of time, without a gap or a repeat, and end before a time", async () => {
      for (const number of [1, 2, 3, 4, 5]) {
        await begin(number);
        if (number === 4) given.now += 1;
        await given.store.settlePayment(paymentIntent(number).key, SETTLEMENT);
      }
      const all = await movements();
      expect(all.map(({ at }) => at - START_MS)).toEqual([0, 0, 0, 1, 1]);
      const paged: Movement[] = [];
      for (let page = all.slice(0, 0); paged.length === 0 || page.length > 0; paged.push(...page)) {
        const after = paged.at(-1) ?? { at: START_MS, id: 0 };
        page = await given.store.of(BOOKS).listMovements({ after, until: START_MS + 2, limit: 2 });
      }
      expect(paged).toEqual(all);
      expect(await movements(START_MS + 1)).toEqual(all.slice(0, 3));
      await given.reopen();
      expect(await movements()).toEqual(all);
    });
  });
}
