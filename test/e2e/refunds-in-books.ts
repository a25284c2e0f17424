import { expect, test } from "vitest";
import { REFUNDS } from "../../src/parts/refunds/store/module.ts";
import { booksOf } from "../parts/books/store/store-contract.ts";
import type { Given } from "../store/contract/given.ts";
import {
  ACCOUNT,
  claimOne,
  NETWORK,
  newTransaction,
  paymentIntent,
  signedTransaction,
} from "../store/store-fixtures.ts";

const SETTLEMENT = JSON.stringify({ success: true, transaction: `0x${"ab".repeat(32)}` });
const OWNER = "one";

/** Tests of the lines that refunds have in the books, for every kind of store. */
export function describeRefundsInBooks(given: Given): void {
  const { movements, journal, begin, received } = booksOf(given);

  test("A refund leaves the account that sent it", async () => {
    const { store } = given;
    const callId = await begin(1, { onFailure: "refund", rate: "2", decimals: 6 });
    await store.settlePayment(paymentIntent(1).key, SETTLEMENT, "5");
    await store.fail(await claimOne(store), "no");
    const queue = `${NETWORK}/refunds`;
    const sent = newTransaction(1, { network: queue, reference: `refund-${callId}-1` });
    await store.of(REFUNDS).sendRefund(callId, 1, sent);
    await store.holdLock(queue, OWNER, 1_000_000);
    const { reference } = sent;
    await journal().signTransactions(queue, OWNER, [signedTransaction(1, 0, { reference })]);
    given.now += 1_000;
    await store.of(REFUNDS).endRefund(callId, reference, {
      state: "sent",
      transaction: "0xback",
      blockNumber: "6",
      account: ACCOUNT,
    });
    const end = { reference, state: "succeeded", hash: "0xback", blockNumber: "6", fee: "21000" } as const;
    await journal().finishTransactions(queue, OWNER, [end]);
    const { sale, ...movement } = received(1, callId);
    expect((await movements()).slice(1)).toEqual([
      {
        id: expect.any(Number),
        ...movement,
        ...{
          at: given.now,
          kind: "refund",
          amount: `-${paymentIntent(1).amount}`,
          account: ACCOUNT,
          decimals: 6,
        },
        ...{ transaction: "0xback", block: "6", sale: { ...sale, rate: "2" } },
      },
      {
        id: expect.any(Number),
        ...{ at: given.now, kind: "network_fee", network: NETWORK, amount: "-21000", decimals: 18 },
        ...{ account: ACCOUNT, transaction: "0xback", block: "6" },
      },
    ]);
  });
}
