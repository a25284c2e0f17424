import { it } from "vitest";
import { Fail } from "../../../src/runner/job.ts";
import { accounts, newAccount } from "../../helpers/accounts.ts";
import { type ChannelConfig, channelClient, initiateWithdraw, readChannels } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

let fail: () => void;
/** Slow jobs fail then, in each of their deliveries. */
const mayFail = new Promise<void>((resolve) => {
  fail = resolve;
});

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    keys: "claim_every_secs = 4\nwithdraw_delay_secs = 900",
    async handle({ body }) {
      if (Buffer.from(body).toString() !== "slow") return undefined;
      await mayFail;
      throw new Fail("no ink");
    },
  }),
);

const configOf = () =>
  shop.facilitator.calls.findLast(({ paymentPayload }) => paymentPayload?.payload.type === "deposit")
    ?.paymentPayload?.payload.channelConfig as ChannelConfig;

it("A call that has not ended is claimed before the withdrawal ends, and its failure is owed as a refund", async () => {
  const { stranger, otherPayer: payer } = accounts;
  const { anvil, usdc } = parts;
  await usdc.mint(payer.address, DEPOSIT);
  // Sends refunds.
  await usdc.mint(stranger.address, DEPOSIT);
  const { fetch } = channelClient({ anvil, payer, voucherSigner: newAccount() });
  const channelId = channelOf(await shop.buy(fetch, "one"));
  await shop.buy(fetch, "slow");
  const config = configOf();
  await initiateWithdraw({ anvil, payer, config, amount: DEPOSIT });
  await until(async () => (await readChannels(anvil, "channels", channelId))[1] === PRICE);
  await anvil.client.increaseTime({ seconds: Math.ceil(config.withdrawDelay / 2) });
  await anvil.client.mine({ blocks: 1 });
  await until(async () => (await readChannels(anvil, "channels", channelId))[1] === 2n * PRICE);
  const before = await usdc.balanceOf(payer.address);
  fail();
  await until(async () => (await usdc.balanceOf(payer.address)) === before + PRICE);
});
