import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { inspectStore } from "../../../../src/open-store.ts";
import { REFUNDS } from "../../../../src/parts/refunds/store/module.ts";
import { TRANSACTIONS } from "../../../../src/parts/transactions/store/module.ts";
import { openSqliteStore } from "../../../../src/store/sqlite/sqlite-store.ts";
import { testFolder } from "../../../helpers/test-folder.ts";
import { openTestStore } from "../../../helpers/test-store.ts";
import { expectBalance, failAll } from "../../../store/contract/given.ts";
import {
  claimOne,
  encodeTestCall,
  NETWORK,
  newTransaction,
  paidCall,
  paymentIntent,
} from "../../../store/store-fixtures.ts";

test("The operator approves each refund of a payment in a copy, because it may have been sent since", async () => {
  const { store, path, stop } = await openTestStore({ encodeJobCall: encodeTestCall });
  onTestFinished(stop);
  const buy = async (number: number) => {
    const intent = paymentIntent(number, { onFailure: "refund" });
    await store.beginPayment(intent, paidCall());
    await store.settlePayment(intent.key, "{}");
  };
  for (const number of [1, 2]) {
    await buy(number);
    await store.fail(await claimOne(store), "no good");
  }
  await buy(3);
  const released = paymentIntent(4, { charge: "after" });
  await store.beginPayment(released, paidCall());
  const [sending] = await store.of(REFUNDS).listOpenRefunds(NETWORK, { state: "owed", limit: 1 });
  const queue = `${NETWORK}/refunds`;
  await store.of(REFUNDS).sendRefund(sending?.callId ?? 0, 1, { ...newTransaction(1), network: queue });
  const copy = join(await testFolder(), "copy.db");
  const inspection = await inspectStore({ url: `sqlite:${path}` });
  await inspection.backup(copy);
  await inspection.close();
  expect(await store.of(REFUNDS).listOpenRefunds(NETWORK, { state: "owed", limit: 10 })).toHaveLength(1);

  const restored = await openSqliteStore({
    path: copy,
    maxPending: 10,
    encodeJobCall: encodeTestCall,
    threads: false,
  });
  await failAll(restored);
  const settlement = JSON.stringify({ success: false, transaction: "0x1", amount: "7" });
  expect(await restored.contradictPayment(released.key, "it moved", settlement)).toBe(true);
  for (const state of ["owed", "sending"] as const)
    expect(await restored.of(REFUNDS).listOpenRefunds(NETWORK, { state, limit: 10 })).toEqual([]);
  const refunds = await restored.of(REFUNDS).listRefunds({ limit: 10 });
  expect(refunds.map(({ state, isApproved }) => [state, isApproved])).toEqual([
    ["owed", false],
    ["owed", false],
    ["owed", false],
    ["owed", false],
  ]);
  const queued = await restored.of(TRANSACTIONS).listOpenTransactions(queue, { state: "queued", limit: 10 });
  expect(queued.transactions).toEqual([]);
  await expectBalance(restored);
  await restored.close();
});

test("The operator approves a refund in a copy whose transaction has no nonce, because another one may have been signed since", async () => {
  const { store, path, stop } = await openTestStore({ encodeJobCall: encodeTestCall });
  onTestFinished(stop);
  const network = "other:1";
  const queue = `${network}/refunds`;
  const usual = paymentIntent(1);
  const intent = { ...usual, onFailure: "refund", key: { ...usual.key, network } } as const;
  await store.beginPayment(intent, paidCall());
  await store.settlePayment(intent.key, "{}");
  await store.fail(await claimOne(store), "no good");
  const [owed] = await store.of(REFUNDS).listOpenRefunds(network, { state: "owed", limit: 1 });
  const transaction = newTransaction(1, { network: queue });
  await store.of(REFUNDS).sendRefund(owed?.callId ?? 0, 1, transaction);
  await store.holdLock(queue, "test", 10_000);
  const { reference } = transaction;
  const signed = [{ reference, account: "a", nonce: 0, raw: "raw", hash: "hash" }];
  expect(await store.of(TRANSACTIONS).signTransactions(queue, "test", signed)).toBe("signed");
  const copy = join(await testFolder(), "copy.db");
  const inspection = await inspectStore({ url: `sqlite:${path}` });
  await inspection.backup(copy);
  await inspection.close();

  const restored = await openSqliteStore({
    path: copy,
    maxPending: 10,
    encodeJobCall: encodeTestCall,
    threads: false,
  });
  const refunds = await restored.of(REFUNDS).listRefunds({ limit: 10 });
  expect(refunds).toMatchObject([{ state: "owed", isApproved: false }]);
  const sent = await restored.of(TRANSACTIONS).listOpenTransactions(queue, { state: "sent", limit: 10 });
  expect(sent.transactions).toEqual([]);
  await restored.close();
});
