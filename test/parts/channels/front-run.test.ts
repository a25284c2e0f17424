import { decodePaymentSignatureHeader } from "@x402/core/http";
import { expect, it } from "vitest";
import type { TestAccount } from "../../helpers/accounts.ts";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() => startChannelShop(parts));

/** Has the facilitator settle the deposit of a request. @returns false for a request without a deposit */
async function sendDeposit(request: Request): Promise<boolean> {
  const header = request.headers.get("payment-signature");
  const payment = header === null ? undefined : decodePaymentSignatureHeader(header);
  if (payment?.payload.type !== "deposit") return false;
  const body = JSON.stringify({
    ...{ x402Version: 2, paymentPayload: payment, paymentRequirements: payment.accepted },
  });
  const headers = { "content-type": "application/json" };
  const settled = await globalThis.fetch(`${shop.facilitator.url}/settle`, {
    ...{ method: "POST", headers, body },
  });
  expect(await settled.json()).toMatchObject({ success: true });
  return true;
}

/** Deposits for a payer without jobgate. */
async function depositElsewhere(payer: TestAccount): Promise<void> {
  const { fetch } = channelClient({
    ...{ anvil: parts.anvil, payer },
    async fetch(input, init) {
      const request = new Request(input, init);
      if (await sendDeposit(request)) throw new Error("sent elsewhere");
      return globalThis.fetch(request);
    },
  });
  await expect(shop.buy(fetch, "never sent", KEPT)).rejects.toThrow("sent elsewhere");
}

it("A buyer whose deposit another account has sent pays by vouchers of the channel, and deposits once", async () => {
  const { anvil, usdc } = parts;
  const payer = await newPayer(parts);
  const before = await usdc.balanceOf(payer.address);
  let sent = 0;
  const { fetch, scheme } = channelClient({
    ...{ anvil, payer },
    async fetch(input, init) {
      const request = new Request(input, init);
      if (await sendDeposit(request)) sent += 1;
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

it("A buyer with a deposit that jobgate has never seen pays by vouchers, and deposits nothing more", async () => {
  const { anvil, usdc } = parts;
  const payer = await newPayer(parts);
  const before = await usdc.balanceOf(payer.address);
  await depositElsewhere(payer);
  const { fetch } = channelClient({ anvil, payer });
  expect(await shop.buy(fetch, "unseen", KEPT)).toMatchObject({
    status: 202,
    settlement: { transaction: "" },
  });
  expect(await usdc.balanceOf(payer.address)).toBe(before - DEPOSIT);
});

it("A deposit that another account sends into a channel that was paid back is counted at the next voucher", async () => {
  const { anvil, usdc } = parts;
  const payer = await newPayer(parts);
  const before = await usdc.balanceOf(payer.address);
  const first = channelClient({ anvil, payer });
  await shop.buy(first.fetch, "first", KEPT);
  expect(await first.scheme.refund(shop.urlOf(KEPT))).toMatchObject({ amount: String(DEPOSIT - PRICE) });
  await depositElsewhere(payer);
  const { fetch } = channelClient({ anvil, payer });
  expect(await shop.buy(fetch, "second", KEPT)).toMatchObject({
    status: 202,
    settlement: { transaction: "" },
  });
  expect(await usdc.balanceOf(payer.address)).toBe(before - DEPOSIT - PRICE);
});

it("A buyer who loses the answer to a deposit and sends the request again gets its call, and pays once", async () => {
  const { anvil, usdc } = parts;
  const payer = await newPayer(parts);
  const before = await usdc.balanceOf(payer.address);
  const lost: string[] = [];
  const { fetch } = channelClient({
    ...{ anvil, payer },
    async fetch(input, init) {
      const request = new Request(input, init);
      const answer = await globalThis.fetch(request);
      if (!request.headers.has("payment-signature") || lost.length > 0) return answer;
      lost.push(await answer.text());
      throw new Error("the connection was lost");
    },
  });
  await expect(shop.buy(fetch, "once", KEPT)).rejects.toThrow("lost");
  const first = { status: 202, callId: JSON.parse(lost[0] ?? "{}").call_id };
  // This client signs another deposit with the same voucher, and a new one the voucher alone.
  expect(await shop.buy(fetch, "once", KEPT)).toMatchObject(first);
  expect(await shop.buy(channelClient({ anvil, payer }).fetch, "once", KEPT)).toMatchObject(first);
  expect(await usdc.balanceOf(payer.address)).toBe(before - DEPOSIT);
});
