import { expect, it } from "vitest";
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
import { channelOf, DEPOSIT, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, { keys: "claim_every_secs = 4\nwithdraw_delay_secs = 900" }),
);

const configOf = () =>
  shop.facilitator.calls.findLast(({ paymentPayload }) => paymentPayload?.payload.type === "deposit")
    ?.paymentPayload?.payload.channelConfig as ChannelConfig;

it("A withdrawal ends the sale of calls, what is charged is claimed at once, and the channel can be used again", async () => {
  // An account whose transactions the chain's node signs.
  const { otherPayer: payer } = accounts;
  const { anvil, usdc } = parts;
  await usdc.mint(payer.address, DEPOSIT);
  const { fetch } = channelClient({ anvil, payer, voucherSigner: newAccount() });
  const bought = await shop.buy(fetch, "one");
  await shop.buy(fetch, "two");
  const [channelId, config] = [channelOf(bought), configOf()];
  expect(await readChannels(anvil, "channels", channelId)).toEqual([DEPOSIT, 0n]);

  await initiateWithdraw({ anvil, payer, config, amount: DEPOSIT });
  await until(async () => (await readChannels(anvil, "channels", channelId))[1] === 2n * PRICE);
  expect(await shop.buy(fetch, "three")).toMatchObject({
    status: 402,
    error: "invalid_batch_settlement_evm_channel_busy",
  });

  await anvil.client.increaseTime({ seconds: config.withdrawDelay });
  await finalizeWithdraw({ anvil, payer, config });
  expect(await readChannels(anvil, "channels", channelId)).toEqual([2n * PRICE, 2n * PRICE]);
});
