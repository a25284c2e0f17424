import { describe, expect, test } from "vitest";
import { FINISHED_MS, type TransactionEnd } from "../../../../src/parts/transactions/store/journal.ts";
import { TRANSACTIONS } from "../../../../src/parts/transactions/store/module.ts";
import type { Given } from "../../../store/contract/given.ts";
import {
  ACCOUNT,
  NETWORK,
  newTransaction,
  START_MS,
  signedTransaction,
} from "../../../store/store-fixtures.ts";

const HELD_MS = 10_000;
const OTHER_ACCOUNT = "0x90f79bf6eb2c4f870365e785982e1f101e93b906";

export function describeTransactions(given: Given): void {
  const journal = () => given.store.of(TRANSACTIONS);
  const hold = (owner: string, forMs = HELD_MS) => given.store.holdLock(NETWORK, owner, forMs);
  const queue = (...numbers: number[]) =>
    Promise.all(numbers.map((number) => journal().queueTransaction(newTransaction(number))));
  const sign = (...signed: ReturnType<typeof signedTransaction>[]) =>
    journal().signTransactions(NETWORK, "owner", signed);
  const finish = (...ends: TransactionEnd[]) => journal().finishTransactions(NETWORK, "owner", ends);
  const find = async (number: number) =>
    (await journal().findTransactions(NETWORK, [newTransaction(number).reference]))[0];
  const list = (state: "queued" | "sent") => journal().listOpenTransactions(NETWORK, { state, limit: 100 });
  const mined = (number: number, nonce: number): TransactionEnd => ({
    reference: newTransaction(number).reference,
    state: "succeeded",
    hash: `0xhash${nonce}`,
    blockNumber: "12345678901234567890",
  });

  describe("the right to send", () => {
    test("Only who holds the network journals signatures and ends", async () => {
      await queue(1, 2);
      expect(await sign(signedTransaction(1, 0))).toBe("not_owner");
      await hold("owner");
      expect(await sign(signedTransaction(1, 0))).toBe("signed");
      given.now += HELD_MS;
      expect(await sign(signedTransaction(2, 1))).toBe("not_owner");
      await hold("other");
      expect(await sign(signedTransaction(2, 1))).toBe("not_owner");
      expect(await finish(mined(1, 0))).toBe("not_owner");
      expect(await find(1)).toMatchObject({ state: "sent" });
      expect(await find(2)).toMatchObject({ state: "queued" });
    });

    test("A network that is taken while its former owner signs has one of both", async () => {
      await queue(1);
      await hold("owner");
      given.now += HELD_MS - 1;
      const signing = sign(signedTransaction(1, 0));
      given.now += 1;
      const [signed, isTaken] = await Promise.all([signing, hold("other")]);
      const found = await find(1);
      expect(found?.state).toBe(signed === "signed" ? "sent" : "queued");
      expect(isTaken || (await hold("other"))).toBe(true);
    });
  });

  describe("transactions", () => {
    test("What is queued twice under one reference is one transaction, also after a restart", async () => {
      await Promise.all([
        journal().queueTransaction(newTransaction(1)),
        journal().queueTransaction({ ...newTransaction(1), reference: "0xREFERENCE1", data: "0x" }),
        journal().queueTransaction(newTransaction(1, { network: "eip155:1" })),
      ]);
      await given.reopen();
      const { transactions } = await list("queued");
      expect(transactions).toEqual([
        {
          ...newTransaction(1),
          data: expect.any(String),
          id: expect.any(Number),
          state: "queued",
          queuedAt: START_MS,
        },
      ]);
      const elsewhere = await journal().listOpenTransactions("eip155:1", { state: "queued", limit: 10 });
      expect(elsewhere.transactions).toHaveLength(1);
      expect(elsewhere.transactions[0]?.id).not.toBe(transactions[0]?.id);
    });

    test("Signed ones are kept with account, nonce, bytes and hash, also after a restart", async () => {
      await queue(1, 2, 3);
      await hold("owner");
      const checksummed = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
      const signed = [signedTransaction(1, 7), signedTransaction(2, 8, { account: checksummed })];
      expect(await sign(...signed)).toBe("signed");
      await given.reopen();
      const { transactions, lastNonces } = await list("sent");
      expect(lastNonces).toEqual([{ account: ACCOUNT, nonce: 8 }]);
      expect(transactions.map((transaction) => transaction.signed)).toEqual(
        [7, 8].map((nonce) => ({
          account: ACCOUNT,
          nonce,
          raw: `0x02${nonce}`,
          hash: `0xhash${nonce}`,
          earlierHashes: [],
          at: START_MS,
        })),
      );
      expect((await list("queued")).transactions).toMatchObject([newTransaction(3)]);
      const unknown = await journal().findTransactions(NETWORK, ["0xREFERENCE2", "0xreference9"]);
      expect(unknown).toEqual([transactions[1]]);
    });

    test("Signatures are journalled all or none", async () => {
      await queue(1, 2);
      await hold("owner");
      const good = signedTransaction(1, 0);
      for (const bad of [
        signedTransaction(9, 1),
        signedTransaction(2, 0),
        signedTransaction(2, 2),
        signedTransaction(1, 1),
        signedTransaction(2, 1, { replaces: "0xhash1" }),
      ]) {
        expect(await sign(good, bad)).toBe("stale");
      }
      expect((await list("sent")).transactions).toEqual([]);
      expect((await list("sent")).lastNonces).toEqual([]);
    });

    test("A nonce is given once to one account, even after its transaction was forgotten", async () => {
      await queue(1, 2, 3);
      await hold("owner");
      const racing = await Promise.all([sign(signedTransaction(1, 5)), sign(signedTransaction(2, 5))]);
      expect(racing.toSorted()).toEqual(["signed", "stale"]);
      expect(await sign(signedTransaction(3, 5, { account: OTHER_ACCOUNT }))).toBe("signed");
      const left = (await list("queued")).transactions[0]?.reference === "0xreference1" ? 1 : 2;
      expect(await sign(signedTransaction(left, 4))).toBe("stale");
      await finish(mined(3 - left, 5), mined(3, 5));
      given.now += FINISHED_MS;
      await queue(4);
      expect(await find(3)).toBeUndefined();
      await hold("owner");
      expect(await sign(signedTransaction(left, 5))).toBe("stale");
      expect((await list("sent")).lastNonces).toEqual([
        { account: ACCOUNT, nonce: 5 },
        { account: OTHER_ACCOUNT, nonce: 5 },
      ]);
      expect(await sign(signedTransaction(left, 6))).toBe("signed");
    });

    test("A replacement keeps the nonce and the earlier hashes, and is refused unless it names the last one", async () => {
      await queue(1);
      await hold("owner");
      const bumped = (hash: string, replaces: string, nonce = 0) =>
        signedTransaction(1, nonce, { raw: "0x02ff", hash, replaces });
      expect(await sign(bumped("0xb", "0xhash0"))).toBe("stale");
      await sign(signedTransaction(1, 0));
      given.now += 1;
      expect(await sign(bumped("0xb", "0xhash0"))).toBe("signed");
      expect(await sign(bumped("0xc", "0xhash0"))).toBe("stale");
      expect(await sign(bumped("0xc", "0xb", 1))).toBe("stale");
      expect(await sign(bumped("0xC", "0xB"))).toBe("signed");
      expect(await find(1)).toMatchObject({
        state: "sent",
        signed: { nonce: 0, raw: "0x02ff", hash: "0xc", earlierHashes: ["0xhash0", "0xb"], at: START_MS + 1 },
      });
      await finish(mined(1, 0));
      expect(await sign(bumped("0xd", "0xc"))).toBe("stale");
    });

    test("Mined transactions are found with their block until a day has passed, and a reorganised transaction is sent again", async () => {
      await queue(1, 2);
      await hold("owner");
      await sign(signedTransaction(1, 0), signedTransaction(2, 1));
      const reverted = { ...mined(2, 1), state: "reverted", hash: "0xABC" } as TransactionEnd;
      expect(await finish(mined(1, 0), reverted, mined(9, 9))).toBe("finished");
      const { blockNumber } = mined(1, 0) as { blockNumber: string };
      expect(await find(1)).toMatchObject({ state: "succeeded", mined: { hash: "0xhash0", blockNumber } });
      expect(await find(2)).toMatchObject({ state: "reverted", mined: { hash: "0xabc" } });
      expect((await list("sent")).transactions).toEqual([]);

      await finish({ reference: "0xreference1", state: "sent" });
      const { transactions } = await list("sent");
      expect(transactions).toMatchObject([{ reference: "0xreference1", signed: { nonce: 0 } }]);
      expect(transactions[0]).toMatchObject({ mined: undefined });

      given.now += FINISHED_MS - 1;
      await queue(3);
      expect(await find(2)).toMatchObject({ state: "reverted" });
      given.now += 1;
      await queue(4);
      expect(await find(2)).toBeUndefined();
      expect(await find(1)).toMatchObject({ state: "sent" });
    });

    test("A transaction that was never signed can be dropped, and be queued again; a signed one cannot", async () => {
      await queue(1, 2);
      await hold("owner");
      await sign(signedTransaction(1, 0));
      const drop = (number: number): TransactionEnd => ({
        reference: newTransaction(number).reference,
        state: "dropped",
        reason: "it expired \0",
      });
      await finish(drop(1), drop(2));
      expect(await find(1)).toMatchObject({ state: "sent" });
      expect(await find(2)).toMatchObject({
        state: "dropped",
        reason: expect.stringContaining("it expired"),
      });
      expect(await sign(signedTransaction(2, 1))).toBe("stale");
      await queue(2);
      expect(await find(2)).toMatchObject({ state: "queued", reason: undefined });
      expect(await sign(signedTransaction(2, 1))).toBe("signed");
    });

    test("A transaction whose nonce was used elsewhere is queued again, and gets a nonce after the last one", async () => {
      await queue(1, 2);
      await hold("owner");
      await sign(signedTransaction(1, 0));
      await sign(signedTransaction(1, 0, { hash: "0xb", replaces: "0xhash0" }));
      await finish(mined(2, 1), { reference: "0xreference2", state: "queued" });
      const before = await find(2);
      expect(before).toMatchObject({ state: "queued" });
      await finish({ reference: "0xreference1", state: "queued" });
      expect(await find(1)).toMatchObject({ state: "queued" });
      expect(await find(1)).not.toHaveProperty("signed");
      expect(await sign(signedTransaction(1, 0))).toBe("stale");
      expect(await sign(signedTransaction(1, 1))).toBe("signed");
      expect(await find(1)).toMatchObject({ signed: { nonce: 1, hash: "0xhash1", earlierHashes: [] } });
    });

    test("Open ones are listed oldest first, page by page", async () => {
      for (let number = 1; number <= 5; number += 1) await queue(number);
      const page = (after?: number) =>
        journal().listOpenTransactions(NETWORK, {
          state: "queued",
          limit: 2,
          ...(after === undefined ? {} : { after }),
        });
      const first = (await page()).transactions;
      const second = (await page(first[1]?.id)).transactions;
      const third = (await page(second[1]?.id)).transactions;
      const references = [...first, ...second, ...third].map(({ reference }) => reference);
      expect(references).toEqual([1, 2, 3, 4, 5].map((number) => newTransaction(number).reference));
    });
  });
}
