import { expect, it, onTestFinished } from "vitest";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);

/** Starts a shop whose slow calls end once they are let go. */
async function startSlowShop(confirmations: number) {
  let end = () => {};
  const mayEnd = new Promise<void>((resolve) => {
    end = resolve;
  });
  const shop = await startChannelShop(parts, {
    keys: "claim_every_secs = 1",
    edit: (config) => config.replace("decimals = 6", `decimals = 6\nconfirmations = ${confirmations}`),
    async handle({ body }) {
      if (Buffer.from(body).toString() === "slow") await mayEnd;
      return undefined;
    },
  });
  onTestFinished(() => shop.stop());
  const logs = (text: string) => shop.jobgate.logs.filter((line) => line.includes(text)).length;
  return { shop, logs, end };
}

it("A deposit that a reorganisation takes away stops the channel, which is an alert, and its return opens the channel again", async () => {
  const { anvil } = parts;
  const { shop, logs, end } = await startSlowShop(1);
  const { fetch } = channelClient({ anvil, payer: await newPayer(parts) });
  const before = await anvil.client.snapshot();
  const id = channelOf(await shop.buy(fetch, "slow", KEPT));
  expect(await readChannels(anvil, "channels", id)).toEqual([DEPOSIT, 0n]);
  const deposit = shop.facilitator.calls.findLast(({ route }) => route === "settle");

  await anvil.client.revert({ id: before });
  await anvil.client.mine({ blocks: 3 });
  await until(() => logs("a channel is stopped") === 1);
  expect(await shop.buy(fetch, "next", KEPT)).toMatchObject({
    status: 402,
    error: expect.stringMatching(
      /^The seller has stopped the channel, .*\(invalid_batch_settlement_evm_channel_busy\)$/,
    ),
  });
  end();
  // Somebody sends the deposit again.
  const { paymentPayload, paymentRequirements } = deposit ?? {};
  const sent = await fetch(`${shop.facilitator.url}/settle`, {
    ...{ method: "POST", headers: { "content-type": "application/json" } },
    body: JSON.stringify({ x402Version: 2, paymentPayload, paymentRequirements }),
  });
  expect(await sent.json()).toMatchObject({ success: true });
  await until(async () => (await readChannels(anvil, "channels", id))[1] === PRICE);
  await until(async () => (await shop.buy(fetch, "last", KEPT)).status === 202);
});

it("A claim waits, which is an alert, until the block that a reorganisation has moved its deposit to is confirmed", async () => {
  const confirmations = 5;
  const { anvil } = parts;
  const { client } = anvil;
  const { shop, logs, end } = await startSlowShop(confirmations);
  const { fetch } = channelClient({ anvil, payer: await newPayer(parts) });
  const buying = shop.buy(fetch, "slow", KEPT);
  await until(async () => {
    await client.mine({ blocks: 1 });
    return shop.runner.calls.length === 1;
  });
  const bought = await buying;
  const id = channelOf(bought);
  const hash = bought.settlement?.transaction as `0x${string}`;
  const raw = await client.request({ method: "eth_getRawTransactionByHash", params: [hash] } as never);
  const { blockNumber } = await client.getTransactionReceipt({ hash });
  const depth = Number((await client.getBlockNumber()) - blockNumber) + 1;
  // The newest one of the new blocks has the deposit.
  await client.request({ method: "anvil_reorg", params: [depth, [[raw, depth - 1]]] } as never);
  expect(await readChannels(anvil, "channels", id)).toEqual([DEPOSIT, 0n]);
  end();
  await until(() => logs("claims of a channel wait") === 1);
  expect(await readChannels(anvil, "channels", id)).toEqual([DEPOSIT, 0n]);
  await client.mine({ blocks: confirmations });
  await until(async () => (await readChannels(anvil, "channels", id))[1] === PRICE);
  expect(logs("claims of a channel wait")).toBe(1);
});
