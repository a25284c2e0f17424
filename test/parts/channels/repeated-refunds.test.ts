import { decodePaymentResponseHeader } from "@x402/core/http";
import { expect, it } from "vitest";
import { Fail } from "../../../src/runner/job.ts";
import { encodeHeader } from "../../../src/x402/wire/payment-header.ts";
import { channelClient } from "../../helpers/channels.ts";
import type { ProxiedRequest } from "../../helpers/fault.ts";
import { type FaultProxy, startFaultProxy } from "../../helpers/http-proxy.ts";
import { readBase64Json } from "../../helpers/mpp.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { DEPOSIT, KEPT, newPayer, PRICE, RETURNED, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
let facilitator: FaultProxy;
let failHeld = () => {};
const held = new Promise<void>((resolve) => {
  failHeld = resolve;
});
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    async through(target) {
      facilitator = await startFaultProxy({ target });
      return facilitator;
    },
    async handle({ body }) {
      if (Buffer.from(body).toString() !== "held") return { body: Buffer.from("done") };
      await held;
      throw new Fail("no ink");
    },
  }),
);

const isRefund = ({ path, body }: ProxiedRequest) =>
  path === "/settle" && JSON.parse(body.toString()).paymentPayload.payload.type === "refund";
const sentRefunds = () => facilitator.requests.filter(isRefund).length;

/** Opens a channel, and keeps the header of the last request for a refund. */
async function open() {
  const payer = await newPayer(parts);
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer });
  let header = "";
  const observed: typeof globalThis.fetch = async (url, init) => {
    const request = new Request(url, init);
    header = request.headers.get("payment-signature") ?? header;
    return globalThis.fetch(request);
  };
  return {
    buy: (body: string, job = KEPT) => shop.buy(fetch, body, job),
    refund: (amount?: string) =>
      scheme.refund(shop.urlOf(KEPT), { fetch: observed, ...(amount !== undefined && { amount }) }),
    /** Sends the last request for a refund again, byte for byte unless other fields are given. */
    async repeat(other?: object, headers: Readonly<Record<string, string>> = {}) {
      const sent = other && encodeHeader({ ...readBase64Json(header), ...other });
      const answer = await globalThis.fetch(shop.urlOf(KEPT), {
        headers: { "payment-signature": sent ?? header, ...headers },
      });
      const settlement = answer.headers.get("payment-response");
      return {
        ...(other && ((await answer.json()) as object)),
        status: answer.status,
        settlement: settlement === null ? undefined : decodePaymentResponseHeader(settlement),
      };
    },
  };
}

it("A refund of a part is paid once, whenever the same request is sent again", async () => {
  const { buy, refund, repeat } = await open();
  expect(await buy("first")).toMatchObject({ status: 202 });
  const sent = sentRefunds();
  const settlement = await refund(String(PRICE));
  expect(settlement).toMatchObject({ success: true, amount: String(PRICE) });
  expect(await repeat()).toEqual({ status: 200, settlement });
  expect(await buy("second")).toMatchObject({ status: 202 });
  expect(await repeat()).toEqual({ status: 200, settlement });
  expect(sentRefunds()).toBe(sent + 1);
});

it("A malformed request for a refund is no payment, and pays nothing back", async () => {
  const { buy, refund, repeat } = await open();
  expect(await buy("bought")).toMatchObject({ status: 202 });
  const settlement = await refund(String(PRICE));
  const sent = sentRefunds();
  for (const other of [
    { accepted: null },
    { accepted: {} },
    { x402Version: 1 },
    { payload: { type: "refund" } },
  ])
    expect(await repeat(other)).toMatchObject({ status: 400, code: "invalid_payment" });
  for (const junk of ["junk", encodeHeader({}), encodeHeader({ x402Version: 1 })])
    expect(await repeat({}, { "x-payment": junk })).toMatchObject({ status: 400, code: "invalid_payment" });
  expect(await repeat()).toEqual({ status: 200, settlement });
  expect(sentRefunds()).toBe(sent);
});

it("A refund of all gets its first outcome again, until more has become free", async () => {
  const { buy, refund, repeat } = await open();
  expect(await buy("kept")).toMatchObject({ status: 202 });
  expect(await buy("held", RETURNED)).toMatchObject({ status: 202 });
  const sent = sentRefunds();
  const settlement = await refund();
  expect(settlement).toMatchObject({ success: true, amount: String(DEPOSIT - 2n * PRICE) });
  expect(await repeat()).toEqual({ status: 200, settlement });
  expect(sentRefunds()).toBe(sent + 1);
  failHeld();
  await expect
    .poll(async () => (await repeat()).settlement, { timeout: 10_000 })
    .toMatchObject({ amount: String(PRICE) });
  expect((await repeat()).settlement).toMatchObject({ amount: String(PRICE) });
  expect(sentRefunds()).toBe(sent + 2);
});

it("A refund that is asked for again while it is being sent is paid once, and both requests get its outcome", async () => {
  const { buy, refund, repeat } = await open();
  expect(await buy("bought")).toMatchObject({ status: 202 });
  const sent = sentRefunds();
  const asked = facilitator.during({ path: "/settle", when: isRefund }, async () => ({ again: repeat() }));
  const settlement = await refund();
  const { again } = await asked;
  expect(await again).toEqual({ status: 200, settlement });
  expect(settlement).toMatchObject({ amount: String(DEPOSIT - PRICE) });
  expect(sentRefunds()).toBe(sent + 1);
});

it("Requests for different amounts at once are paid one after the other, and each gets its own outcome", async () => {
  const { buy, refund, repeat } = await open();
  expect(await buy("bought")).toMatchObject({ status: 202 });
  const asked = facilitator.during({ path: "/settle", when: isRefund }, async () => ({ rest: refund() }));
  const part = await refund(String(PRICE));
  const { rest } = await asked;
  const settlement = await rest;
  expect([part.amount, settlement.amount]).toEqual([String(PRICE), String(DEPOSIT - 2n * PRICE)]);
  expect(await repeat()).toEqual({ status: 200, settlement });
});

it("A refund whose facilitator answers late has the hash of its transaction", async () => {
  const { buy, refund, repeat } = await open();
  expect(await buy("bought")).toMatchObject({ status: 202 });
  // Meanwhile, the rounds of the background work see the refund on the chain.
  facilitator.add({ path: "/settle", when: isRefund, times: 1, fault: { kind: "delay-answer", ms: 4_000 } });
  const settlement = await refund();
  expect(settlement.transaction).toMatch(/^0x[0-9a-f]{64}$/);
  expect(await repeat()).toEqual({ status: 200, settlement });
});
