import { expect, it } from "vitest";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

let end: () => void;
const mayEnd = new Promise<void>((resolve) => {
  end = resolve;
});

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    keys: "claim_every_secs = 1",
    async handle({ body }) {
      if (Buffer.from(body).toString() === "slow") await mayEnd;
      return undefined;
    },
  }),
);

const logs = (text: string) => shop.jobgate.logs.filter((line) => line.includes(text)).length;

it("A deposit that a reorganisation takes away stops the channel, which is an alert, and its return opens the channel again", async () => {
  const { anvil } = parts;
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
    error: "invalid_batch_settlement_evm_channel_busy",
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
