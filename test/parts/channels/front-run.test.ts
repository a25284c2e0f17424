import { decodePaymentSignatureHeader } from "@x402/core/http";
import { expect, it } from "vitest";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() => startChannelShop(parts));

it("A buyer whose deposit somebody else has sent pays by vouchers of the channel, and deposits once", async () => {
  const { anvil, usdc } = parts;
  const payer = await newPayer(parts);
  const before = await usdc.balanceOf(payer.address);
  let sent = 0;
  const { fetch, scheme } = channelClient({
    ...{ anvil, payer },
    async fetch(input, init) {
      const request = new Request(input, init);
      const header = request.headers.get("payment-signature");
      const payment = header === null ? undefined : decodePaymentSignatureHeader(header);
      if (payment?.payload.type === "deposit") {
        const body = JSON.stringify({
          ...{ x402Version: 2, paymentPayload: payment, paymentRequirements: payment.accepted },
        });
        const headers = { "content-type": "application/json" };
        const settled = await globalThis.fetch(`${shop.facilitator.url}/settle`, {
          ...{ method: "POST", headers, body },
        });
        expect(await settled.json()).toMatchObject({ success: true });
        sent += 1;
      }
      return globalThis.fetch(request);
    },
  });
  const bought = await shop.buy(fetch, "front-run", KEPT);
  expect(bought).toMatchObject({ status: 202, settlement: { success: true, transaction: "" } });
  expect(await shop.buy(fetch, "next", KEPT)).toMatchObject({ status: 202 });
  expect(sent).toBe(1);
  expect(await usdc.balanceOf(payer.address)).toBe(before - DEPOSIT);
  await until(async () => (await readChannels(anvil, "channels", channelOf(bought)))[1] === 2n * PRICE);
  expect(await scheme.refund(shop.urlOf(KEPT))).toMatchObject({ amount: String(DEPOSIT - 2n * PRICE) });
});
