import { expect, test } from "vitest";
import { openDriver } from "../../../../src/store/sqlite/driver.ts";
import { openTestStore } from "../../../helpers/test-store.ts";
import type { Given } from "../../../store/contract/given.ts";
import { claimOne, encodeTestCall, START_MS } from "../../../store/store-fixtures.ts";
import { CHANNEL, channelsOf, inChannel } from "./store-contract.ts";

const DAY_MS = 86_400_000;

test("A deposit is forgotten with its payment, and a refund is kept with its channel", async () => {
  const given = { now: START_MS } as { now: number } & Given;
  const { store, path, stop } = await openTestStore({
    encodeJobCall: encodeTestCall,
    clock: () => given.now,
  });
  Object.assign(given, { store });
  const { buy, count, ledger } = channelsOf(given);
  const rows = () => {
    const file = openDriver(path);
    const [found] = file
      .prepare<{ deposits: number; refunds: number }>(
        "SELECT (SELECT count(*) FROM channel_deposits) AS deposits, (SELECT count(*) FROM channel_refunds) AS refunds",
      )
      .all([]);
    file.close();
    return { deposits: Number(found?.deposits), refunds: Number(found?.refunds) };
  };
  const prune = async () => {
    for (const kind of ["results", "calls", "payments"] as const)
      await store.prune({ kind, ageMs: DAY_MS, after: 0 });
  };

  await buy(inChannel(1, 10, { deposit: "100" }));
  await store.ack(await claimOne(store));
  await count();
  const chain = { balance: "100", totalClaimed: "0", refundNonce: "0", withdrawAt: 0, block: 1 };
  const request = "10:1";
  await ledger().beginChannelRefund(CHANNEL, { amount: "1", chain, request });
  await ledger().endChannelRefund(CHANNEL, { ...chain, balance: "99", refundNonce: "1" }, "0xf", request);
  await prune();
  expect(rows()).toEqual({ deposits: 1, refunds: 1 });

  given.now += 3 * DAY_MS;
  await prune();
  expect(rows()).toEqual({ deposits: 0, refunds: 1 });
  // Without its row, the refund would be paid a second time.
  expect(await ledger().beginChannelRefund(CHANNEL, { amount: "1", chain, request })).toMatchObject({
    kind: "paid",
  });
  await stop();
});
