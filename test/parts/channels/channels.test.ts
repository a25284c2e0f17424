import { decodePaymentSignatureHeader, encodePaymentSignatureHeader } from "@x402/core/http";
import { expect, it } from "vitest";
import { Fail } from "../../../src/runner/job.ts";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import {
  channelOf,
  DEPOSIT,
  KEPT,
  newPayer,
  PRICE,
  RETURNED,
  readBought,
  startChannelParts,
  startChannelShop,
} from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    handle({ body }) {
      if (Buffer.from(body).toString().startsWith("fail")) throw new Fail("no ink");
      return undefined;
    },
  }),
);

const client = async () => channelClient({ anvil: parts.anvil, payer: await newPayer(parts) });
const claimedOf = async (channelId: string) => (await readChannels(parts.anvil, "channels", channelId))[1];

it("The official client deposits once and pays each call by a voucher, which no facilitator sees", async () => {
  const { fetch } = await client();
  const first = await shop.buy(fetch, "one");
  expect(first).toMatchObject({ status: 202, settlement: { success: true, amount: String(DEPOSIT) } });
  const { verify, settle } = shop.facilitator.counts;
  for (const [body, job] of [
    ["two", RETURNED],
    ["three", KEPT],
  ] as const) {
    const bought = await shop.buy(fetch, body, job);
    expect(bought).toMatchObject({ status: 202, settlement: { success: true, transaction: "", amount: "" } });
  }
  expect(shop.facilitator.counts.verify).toBe(verify);
  const settlements = shop.facilitator.calls
    .slice(settle)
    .map(({ paymentPayload }) => paymentPayload?.payload.type);
  expect(settlements).not.toContain("voucher");
  const channelId = channelOf(first);
  const before = await parts.usdc.balanceOf(shop.payTo.address);
  await expect.poll(() => claimedOf(channelId), { timeout: 30_000 }).toBe(3n * PRICE);
  await expect
    .poll(() => parts.usdc.balanceOf(shop.payTo.address), { timeout: 30_000 })
    .toBeGreaterThan(before);
});

it("The official client gets back what was not charged", async () => {
  const payer = await newPayer(parts);
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer });
  const bought = await shop.buy(fetch, "one");
  await expect.poll(() => claimedOf(channelOf(bought)), { timeout: 30_000 }).toBe(PRICE);
  const before = await parts.usdc.balanceOf(payer.address);
  expect(await scheme.refund(shop.urlOf(KEPT))).toMatchObject({
    success: true,
    amount: String(DEPOSIT - PRICE),
  });
  expect(await parts.usdc.balanceOf(payer.address)).toBe(before + DEPOSIT - PRICE);
  await expect(scheme.refund(shop.urlOf(KEPT))).rejects.toThrow("no remaining balance");
  // The channel goes on with another deposit.
  expect(await shop.buy(fetch, "again")).toMatchObject({ status: 202 });
});

it("A call that fails is charged back in the channel, and another one is not", async () => {
  const payer = await newPayer(parts);
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer });
  const bought = await shop.buy(fetch, "fail", RETURNED);
  await shop.buy(fetch, "fail", KEPT);
  await expect.poll(() => claimedOf(channelOf(bought)), { timeout: 30_000 }).toBe(PRICE);
  expect(await scheme.refund(shop.urlOf(RETURNED))).toMatchObject({ amount: String(DEPOSIT - PRICE) });
});

it("Requests at once are sold one voucher each: the others sign again from the sums in the 402", async () => {
  const { fetch } = await client();
  await shop.buy(fetch, "first");
  const bought = await Promise.all(["a", "b"].map((body) => shop.buy(fetch, body)));
  expect(bought.map(({ status }) => status)).toEqual([202, 202]);
  expect(new Set(bought.map(({ callId }) => callId)).size).toBe(2);
});

/** A client whose last paid request can be sent again, with this or another body. */
async function resender() {
  let sent: Request | undefined;
  const payer = await newPayer(parts);
  const { fetch } = channelClient({
    ...{ anvil: parts.anvil, payer },
    fetch: async (input, init) => {
      const request = new Request(input, init);
      if (request.headers.has("payment-signature")) sent = request.clone() as Request;
      return globalThis.fetch(request);
    },
  });
  const send = async (body: string, headers = sentHeaders()) =>
    readBought(await globalThis.fetch(shop.urlOf(RETURNED), { method: "POST", headers, body }));
  const sentHeaders = () => ({ "payment-signature": sent?.headers.get("payment-signature") ?? "" });
  return { fetch, send, sentHeaders };
}

const MISMATCH = { status: 402, error: "invalid_batch_settlement_evm_cumulative_amount_mismatch" };

it("A voucher that is sent again gets the first outcome for its request, and a 402 for another one", async () => {
  const { fetch, send } = await resender();
  await shop.buy(fetch, "deposit");
  const bought = await shop.buy(fetch, "voucher");
  expect(await send("voucher")).toMatchObject({ status: 202, callId: bought.callId });
  expect(await send("another")).toMatchObject(MISMATCH);
});

it("A voucher that came with a deposit gets its first outcome without the deposit too, after later vouchers", async () => {
  const { fetch, send, sentHeaders } = await resender();
  const { callId } = await shop.buy(fetch, "deposit");
  const { payload, ...rest } = decodePaymentSignatureHeader(sentHeaders()["payment-signature"]);
  const { deposit: _, ...voucher } = payload;
  const withoutDeposit = (more: object = {}) => ({
    "payment-signature": encodePaymentSignatureHeader({
      ...rest,
      payload: { ...voucher, type: "voucher", ...more },
    }),
  });
  for (const body of ["second", "third"]) expect(await shop.buy(fetch, body)).toMatchObject({ status: 202 });
  expect(await send("deposit", withoutDeposit())).toMatchObject({ status: 202, callId });
  expect(await send("another", withoutDeposit())).toMatchObject(MISMATCH);
  const { voucher: signed } = payload as { readonly voucher: { readonly signature: string } };
  const forged = { ...signed, signature: `0x${"11".repeat(64)}1b` };
  expect(await send("deposit", withoutDeposit({ voucher: forged }))).toMatchObject({ status: 402 });
});

it("A voucher whose call was charged back buys again when the same request is sent", async () => {
  const { fetch, send } = await resender();
  await shop.buy(fetch, "deposit", KEPT);
  const { callId: first } = await shop.buy(fetch, "fail again");
  const second = await until(async () => {
    const bought = await send("fail again");
    expect(bought.status).toBe(202);
    return bought.callId !== first && bought;
  });
  const third = await until(async () => {
    const bought = await send("another");
    return bought.status === 202 && bought;
  });
  expect(new Set([first, second.callId, third.callId]).size).toBe(3);
  expect(await send("another")).toMatchObject({ status: 202, callId: third.callId });
  expect(await send("one more")).toMatchObject(MISMATCH);
});

it("A deposit whose call was charged back counts once, and sells no other call", async () => {
  const { fetch, send, sentHeaders } = await resender();
  const { callId } = await shop.buy(fetch, "fail with the deposit");
  const deposit = sentHeaders();
  // Its voucher can be used again, without the deposit.
  await until(async () => (await shop.buy(fetch, "next")).status === 202);
  await until(async () => (await shop.buy(fetch, "fail")).status === 202);
  expect(await send("another", deposit)).toMatchObject({ status: 402 });
  expect(await send("fail with the deposit", deposit)).toMatchObject({ status: 202, callId });
});
