import { expect, test } from "vitest";
import { booksOf } from "../parts/books/store/store-contract.ts";
import { CHANNEL, channelsOf, inChannel, PARTIES } from "../parts/channels/store/store-contract.ts";
import type { Given } from "../store/contract/given.ts";
import { claimOne } from "../store/store-fixtures.ts";

/** Tests of the lines that calls from channels have in the books, for every kind of store. */
export function describeChannelsInBooks(given: Given): void {
  const { movements, sums, received } = booksOf(given);
  const { ledger, begin, count, buy } = channelsOf(given);

  test("A call from a channel is in the books once it is sold, and leaves them when it is charged back", async () => {
    const failed = inChannel(1, 10, { deposit: "100" });
    await begin(failed);
    await given.store.failPayment(failed.key, "{}", "the deposit was not made");
    await count();
    expect(await movements()).toEqual([]);
    await buy(inChannel(2, 10, { deposit: "100" }));
    await given.store.ack(await claimOne(given.store));
    await count();
    given.now += 1_000;
    const callId = await buy(inChannel(3, 20, { onFailure: "refund" }));
    await given.store.fail(await claimOne(given.store), "no ink");
    await count();
    await count();
    const [first, second, back, ...more] = await movements();
    expect(more).toEqual([]);
    expect([first, second]).toMatchObject([{ amount: "10" }, { amount: "10" }]);
    const { sale, account, counterparty, token } = second ?? {};
    expect(sale).toMatchObject({ callId });
    expect(back).toMatchObject({
      ...{ at: given.now, kind: "refund", amount: "-10", sale, account, counterparty, token },
      transaction: undefined,
    });
    expect(account).toBe(received(3, callId).account);
    expect(await sums("token")).toMatchObject([
      { payments: 2n, sold: 20n, chargedBack: 10n, refunded: 0n, net: 10n },
    ]);
  });

  test("A metered call from a channel is in the books with its ceiling, less what it has not used", async () => {
    const callId = await buy(inChannel(1, 10, { deposit: "100", chargesBack: true }));
    await given.store.ack(await claimOne(given.store), undefined, { units: "3" });
    await count();
    await count();
    const [sold, back, ...more] = await movements();
    expect(more).toEqual([]);
    expect(sold).toMatchObject({ kind: "payment", amount: "10", sale: { callId } });
    expect(back).toMatchObject({ kind: "refund", amount: "-7", sale: { callId } });
  });

  test("What is lost because a payer has withdrawn it is one line of the books", async () => {
    const intent = inChannel(1, 10, { deposit: "100" });
    await buy(intent);
    await given.store.ack(await claimOne(given.store));
    await count();
    const chain = { balance: "100", totalClaimed: "0", refundNonce: "0", withdrawAt: 9, block: 1 };
    await ledger().seeChannel(CHANNEL, chain);
    for (const block of [2, 3])
      await ledger().seeChannel(CHANNEL, { ...chain, balance: "4", withdrawAt: 0, block });
    const [sold, lost, ...more] = await movements();
    expect(more).toEqual([]);
    expect(sold).toMatchObject({ kind: "payment", amount: "10" });
    expect(lost).toMatchObject({
      ...{ kind: "loss", amount: "-6", network: intent.key.network, decimals: intent.decimals },
      token: { asset: intent.key.asset, symbol: intent.symbol },
      ...{ account: PARTIES.receiver.toLowerCase(), counterparty: PARTIES.payer },
      ...{ sale: undefined, transaction: undefined },
    });
    expect(await sums("job")).toMatchObject([
      { job: { jobIndex: intent.jobIndex }, sold: 10n, net: 10n },
      { job: undefined, payments: 0n, lost: 6n, net: -6n },
    ]);
  });
}
