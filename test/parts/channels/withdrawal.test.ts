import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { accounts, newAccount } from "../../helpers/accounts.ts";
import {
  type ChannelConfig,
  channelClient,
  finalizeWithdraw,
  initiateWithdraw,
  readChannels,
} from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { type Bought, channelOf, KEPT, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const BUSY =
  "The channel takes no vouchers until the withdrawal that its payer has begun has ended. Nothing was charged (invalid_batch_settlement_evm_channel_busy)";
const MISMATCH = "invalid_batch_settlement_evm_cumulative_amount_mismatch";
const BUYERS = 2;
/** Time between two calls of a buyer, who buys until the withdrawal is seen. */
const PACE_MS = 20;
/** Calls that are sold before the withdrawal starts. */
const SOLD_BEFORE = 6;

let end: () => void;
const mayEnd = new Promise<void>((resolve) => {
  end = resolve;
});

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    keys: "claim_every_secs = 1\nwithdraw_delay_secs = 900",
    // Every third call has not ended when the withdrawal starts.
    async handle({ callId }) {
      if (callId % 3n === 0n) await mayEnd;
      return undefined;
    },
  }),
);

const configOf = () =>
  shop.facilitator.calls.findLast(({ paymentPayload }) => paymentPayload?.payload.type === "deposit")
    ?.paymentPayload?.payload.channelConfig as ChannelConfig;

it("Vouchers that are sold while a withdrawal starts are claimed before it ends, and the ones after that are refused", async () => {
  // A failure must not leave calls that never end.
  onTestFinished(() => end());
  // An account whose transactions the chain's node signs.
  const { otherPayer: payer } = accounts;
  const { anvil, usdc } = parts;
  await usdc.mint(payer.address, 1_000_000n);
  const { fetch } = channelClient({ anvil, payer, voucherSigner: newAccount() });
  const bought: Bought[] = [await shop.buy(fetch, "first", KEPT)];
  const [channelId, config] = [channelOf(bought[0] as Bought), configOf()];
  const sold = () => bought.filter(({ status }) => status === 202);
  const claimed = async () => (await readChannels(anvil, "channels", channelId))[1];

  const buyers = Array.from({ length: BUYERS }, async (_, buyer) => {
    for (let n = 0; bought.at(-1)?.error !== BUSY; n++) {
      bought.push(await shop.buy(fetch, `${buyer}.${n}`, KEPT));
      await sleep(PACE_MS);
    }
  });
  await until(() => sold().length >= SOLD_BEFORE);
  const before = sold().length;
  // A claim between the two may leave less than is asked for.
  await until(async () => {
    const [balance, taken] = await readChannels(anvil, "channels", channelId);
    const withdrawal = initiateWithdraw({ anvil, payer, config, amount: balance - taken });
    return withdrawal.then(
      () => true,
      () => false,
    );
  });
  await Promise.all(buyers);
  // They were sold from the request for the withdrawal on, until jobgate saw it.
  expect(sold().length).toBeGreaterThan(before);
  expect(new Set(sold().map(({ callId }) => callId)).size).toBe(sold().length);
  for (const { status, error } of bought)
    if (status !== 202) expect([402, BUSY, MISMATCH]).toEqual(expect.arrayContaining([status, error]));

  end();
  const charged = BigInt(sold().length) * PRICE;
  await until(async () => (await claimed()) === charged);
  expect(await shop.buy(fetch, "late", KEPT)).toMatchObject({ status: 402, error: BUSY });
  await anvil.client.increaseTime({ seconds: config.withdrawDelay });
  await finalizeWithdraw({ anvil, payer, config });
  expect((await readChannels(anvil, "channels", channelId))[1]).toBe(charged);
  await until(async () => (await usdc.balanceOf(shop.payTo.address)) === charged);
});
