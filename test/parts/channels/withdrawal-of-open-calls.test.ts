import { expect, it, type TestContext, vi } from "vitest";
import { Fail } from "../../../src/runner/job.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { accounts, newAccount } from "../../helpers/accounts.ts";
import { type ChannelConfig, channelClient, initiateWithdraw, readChannels } from "../../helpers/channels.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, KEPT, PRICE, RETURNED, startChannelParts, startChannelShop } from "./harness.ts";

const METERED = 2;
const USED = 300n;

/** Starts a shop whose slow calls end once they are let go, with a chain of its own, whose time is changed. */
async function startSlowShop({ onTestFinished }: TestContext, edit?: (config: string) => string) {
  const parts = await startChannelParts();
  let letGo = () => {};
  const mayEnd = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const shop = await startChannelShop(parts, {
    keys: "claim_every_secs = 1\nwithdraw_delay_secs = 900",
    jobs: `
[[jobs]]
job_index = ${METERED}
mode = "public_paid"
price = "$0.001"
charge = "used"
`,
    ...(edit && { edit }),
    async handle({ body }) {
      const text = Buffer.from(body).toString();
      if (text === "fast") return undefined;
      await mayEnd;
      if (text === "fails") throw new Fail("no ink");
      return { body, charge: USED };
    },
  });
  onTestFinished(async () => {
    await shop.stop();
    await parts.stop();
  });
  return { ...shop, ...parts, letGo };
}

/** Each test waits for the second claim, and a busy machine makes it late. */
const timeout = 180_000;

type SlowShop = Awaited<ReturnType<typeof startSlowShop>>;

/**
 * Buys calls that do not end, one that will fail and a metered one that will use a part, and has their payer withdraw, until they are
 * claimed because of that.
 * @returns the payer's balance then, and the ID of the metered call
 */
async function buyAndWithdraw({ anvil, usdc, facilitator, buy }: SlowShop) {
  // An account whose transactions the chain's node signs.
  const { otherPayer: payer } = accounts;
  await usdc.mint(payer.address, DEPOSIT);
  const { fetch } = channelClient({ anvil, payer, voucherSigner: newAccount() });
  const channelId = channelOf(await buy(fetch, "fast", KEPT));
  await buy(fetch, "fails", RETURNED);
  const { callId } = await buy(fetch, "uses a part", METERED);
  const deposit = facilitator.calls.findLast(
    ({ paymentPayload }) => paymentPayload?.payload.type === "deposit",
  );
  const config = deposit?.paymentPayload?.payload.channelConfig as ChannelConfig;
  await initiateWithdraw({ anvil, payer, config, amount: DEPOSIT });
  const claimed = async () => (await readChannels(anvil, "channels", channelId))[1];
  await until(async () => (await claimed()) === PRICE);
  await anvil.client.increaseTime({ seconds: Math.ceil(config.withdrawDelay / 2) });
  await anvil.client.mine({ blocks: 1 });
  await until(async () => (await claimed()) === 3n * PRICE);
  return {
    callId,
    balance: () => usdc.balanceOf(payer.address),
    before: await usdc.balanceOf(payer.address),
  };
}

it.concurrent("Calls that have not ended are claimed before the withdrawal ends, and what fails and what is not used is refunded by transactions", {
  timeout,
}, async (context) => {
  const shop = await startSlowShop(context);
  // Sends refunds.
  await shop.usdc.mint(accounts.stranger.address, DEPOSIT);
  const { balance, before } = await buyAndWithdraw(shop);
  shop.letGo();
  await until(async () => (await balance()) === before + PRICE + (PRICE - USED));
});

it.concurrent("Without [x402.refunds] the unused part of a metered call stays owed, which operators see", {
  timeout,
}, async (context) => {
  const shop = await startSlowShop(context, (config) =>
    config
      .replace(/\[x402\.refunds\]\nsigner = .*\n/, "")
      .replaceAll('on_failure = "refund"', 'on_failure = "keep"'),
  );
  const { callId, balance, before } = await buyAndWithdraw(shop);
  shop.letGo();
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", "");
  context.onTestFinished(() => void vi.unstubAllEnvs());
  const target = shop.jobgate.operatorUrl;
  const owed = () => runHere("refunds", "list", "--state", "owed", "--json", "--target", target);
  await until(async () => (await owed()).stdout !== "");
  expect(JSON.parse((await owed()).stdout)).toMatchObject({
    call_id: String(callId),
    amount: String(PRICE - USED),
  });
  expect(await balance()).toBe(before);
});
