import { expect, test } from "vitest";
import { channelGauges } from "../../../src/parts/channels/gauges.ts";
import { CHANNELS } from "../../../src/parts/channels/store/module.ts";
import type { StoreTotals } from "../../../src/store/store.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { claimOne, paidCall, paymentIntent } from "../../store/store-fixtures.ts";

const settled = [{ network: "eip155:1", asset: "0xa", receiver: "0xb", settled: 7n }];
const read = (totals: StoreTotals | undefined, now: number) =>
  Object.fromEntries(channelGauges(() => settled).map((gauge) => [gauge.name, gauge.read(totals, now)]));

test("Channels are measured by token and state, with the age of the oldest charges that are not claimed", async () => {
  const { store, stop } = await openTestStore();
  const ledger = store.of(CHANNELS);
  const { network, asset } = paymentIntent(1).key;
  const token = { network, asset, symbol: "USDC" };
  for (const number of [1, 2]) {
    const voucher = { channelId: `0x${number}`, maxClaimableAmount: "10", signature: "0xa1" };
    const payload = { channelConfig: {}, voucher, deposit: { amount: "10000000000000000000100" } };
    const intent = paymentIntent(number, {
      ...{ transferMethod: "channel", amount: "10", payload: JSON.stringify({ payload }) },
    });
    await store.beginPayment(intent, paidCall());
    await store.settlePayment(intent.key, "{}", "1");
    if (number === 1) await store.ack(await claimOne(store));
  }
  for (const { channelId, ...charges } of await ledger.listUncounted({ limit: 100 }))
    await ledger.countCharges(channelId, charges);
  await ledger.askClaims(["0x1"]);
  const row = await ledger.seeChannel("0x1", {
    ...{ balance: "10000000000000000000100", totalClaimed: "4", refundNonce: "0", withdrawAt: 0, block: 1 },
  });
  const gauges = read(await store.totals(), (row?.due_since ?? 0) + 1_500);
  expect(gauges).toEqual({
    jobgate_channels: [[2, { state: "open", ...token }]],
    jobgate_channels_amount: [
      [Number(20_000_000_000_000_000_000_200n), { sum: "deposited", ...token }],
      [20, { sum: "charged", ...token }],
      [10, { sum: "final", ...token }],
      [4, { sum: "claimed", ...token }],
      [0, { sum: "lost", ...token }],
      [6, { sum: "unclaimed", ...token }],
    ],
    jobgate_channels_oldest_unclaimed_age_seconds: [[1.5, token]],
    jobgate_channels_settled_amount: [[7, { network: "eip155:1", asset: "0xa", pay_to: "0xb" }]],
  });
  expect(read(await store.totals(), 0).jobgate_channels_oldest_unclaimed_age_seconds).toEqual([[0, token]]);
  await stop();
});

test("A store that does not answer leaves out all but what the chain showed", () => {
  const values = Object.values(read(undefined, 0)) as (readonly unknown[])[];
  expect(values.map(({ length }) => length)).toEqual([0, 0, 0, 1]);
});
