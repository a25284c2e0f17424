import { beforeEach, expect, it, onTestFinished } from "vitest";
import { callJson } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { PRICE, startSolanaParts, startSolanaShop } from "./harness.ts";

const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(() => startSolanaShop(parts));

let received: bigint;
let delivered: number;
beforeEach(async () => {
  received = (await parts.cluster.balanceOf(parts.seller, parts.mint)) ?? 0n;
  delivered = shop.runner.calls.length;
});

/** Checks how many payments the seller got and how many jobs a runner, since the test began. */
async function expectSold(count: number): Promise<void> {
  await shop.runner.waitFor(delivered + count);
  expect(shop.runner.calls.length - delivered).toBe(count);
  expect(await parts.cluster.balanceOf(parts.seller, parts.mint)).toBe(received + PRICE * BigInt(count));
}

it("The official client buys a job through the official facilitator, and queries no RPC for a blockhash", async () => {
  const payment = await shop.sign();
  parts.cluster.passSlots(1);
  const answer = await shop.send(payment);
  expect(answer).toMatchObject({ status: 202 });
  await expectSold(1);
  const call = shop.runner.calls.at(-1);
  expect(call?.metadata).toMatchObject({
    "X-X402-PAYER": parts.payer,
    "X-X402-PAYMENT-NETWORK": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
    "X-X402-PAYMENT-AMOUNT": String(PRICE),
  });
  const { answer: journalled } = await callJson(shop.jobgate.operatorUrl, "GetPayment", {
    call_id: String(answer.call_id),
  });
  expect(journalled).toMatchObject({
    payment: { payer: parts.payer, asset: parts.mint, transaction: parts.cluster.landed.at(-1)?.signature },
  });
  const { answer: listed } = await callJson(shop.jobgate.operatorUrl, "ListPayments", { payer: parts.payer });
  expect(listed).toMatchObject({ payments: [{ call_id: String(answer.call_id) }] });
});

it("Each 402 has a memo of its own, a blockhash, and the facilitator's fee payer", async () => {
  const [one, two] = [await shop.offers(), await shop.offers()];
  const extras = [one, two].map(({ accepts }) => accepts[0]?.extra ?? {});
  expect(extras[0]?.memo).toMatch(/^[0-9]{10}-[0-9a-f]{16}-[\w-]{22}$/);
  expect(extras[0]?.memo).not.toBe(extras[1]?.memo);
  for (const extra of extras)
    expect(extra).toMatchObject({
      feePayer: expect.stringMatching(/^[1-9A-Za-z]{32,44}$/),
      recentBlockhash: expect.stringMatching(/^[1-9A-Za-z]{32,44}$/),
      lastValidBlockHeight: expect.stringMatching(/^[0-9]+$/),
    });
});

it("A payment that is sent again has its first answer, and buys nothing else", async () => {
  const payment = await shop.sign();
  const first = await shop.send(payment);
  expect(first.status).toBe(202);
  expect(await shop.send(payment)).toMatchObject({ status: 202, call_id: first.call_id });
  expect(await shop.send(payment, { body: "two" })).toMatchObject({ status: 409, code: "payment_replay" });
  expect(await shop.send(payment, { job: 1 })).toMatchObject({ status: 409, code: "payment_replay" });
  await expectSold(1);
});

it("Two purchases with the bytes of one transaction are one payment, sent at once", async () => {
  const payment = await shop.sign();
  const answers = await Promise.all([1, 2, 3].map(() => shop.send(payment)));
  expect(new Set(answers.map(({ call_id }) => call_id)).size).toBe(1);
  await expectSold(1);
});

it("A payment under another memo than its offer's is refused before a facilitator is called", async () => {
  const { verify } = shop.facilitator.counts;
  const payment = await shop.sign((offer) => ({
    ...offer,
    extra: { ...offer.extra, memo: "of another offer" },
  }));
  expect(await shop.send(payment)).toMatchObject({ status: 402, code: "payment_mismatch", charged: false });
  expect(shop.facilitator.counts.verify).toBe(verify);
  await expectSold(0);
});

it.each([
  ["amount", { amount: "9999" }],
  ["recipient", { payTo: "9kXF1MqWfXSTJwQmtWJHqGhtCvUiPwEkgZSUBYY4qVpc" }],
])("A payment of another %s is refused before a facilitator is called", async (_, change) => {
  const { verify } = shop.facilitator.counts;
  const payment = await shop.sign((offer) => ({ ...offer, ...change }));
  expect(await shop.send(payment)).toMatchObject({ status: 402, code: "payment_mismatch", charged: false });
  expect(shop.facilitator.counts.verify).toBe(verify);
  await expectSold(0);
});

it("A payment of a payer without funds is refused, and charges nothing", async () => {
  const payment = await shop.sign(undefined, 9);
  expect(await shop.send(payment)).toMatchObject({ status: 402, code: "payment_invalid", charged: false });
  await expectSold(0);
});

it("A payment whose facilitator's answer was lost is sold once the chain shows it", async () => {
  shop.facilitator.losesAnswers = true;
  onTestFinished(() => {
    shop.facilitator.losesAnswers = false;
  });
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  await expectSold(1);
});

it("A payment whose transaction landed before it came is refused as used, and may be charged", async () => {
  const payment = await shop.sign();
  // Another seller's copy of the payment, or a lost connection: the transaction lands without jobgate.
  await fetch(`${shop.facilitator.url}/settle`, {
    method: "POST",
    body: JSON.stringify({ paymentPayload: payment, paymentRequirements: payment.accepted }),
  });
  await shop.restartFacilitator();
  const answer = await shop.send(payment);
  expect(answer).toMatchObject({ status: 409, code: "authorization_used", charged: "unknown" });
  expect(await parts.cluster.balanceOf(parts.seller, parts.mint)).toBe(received + PRICE);
});

it("A transaction that is not finalized sells nothing until it is, if the token's commitment is finalized", async () => {
  const { cluster } = parts;
  const careful = await startSolanaShop(parts, { commitment: "finalized" });
  onTestFinished(careful.stop);
  cluster.finalizedLag = 30;
  onTestFinished(() => {
    cluster.finalizedLag = 0;
  });
  cluster.passSlots(1);
  const landed = cluster.landed.length;
  const selling = careful.send(await careful.sign());
  await until(() => cluster.landed.length > landed);
  const seen = cluster.calls.length;
  await until(() => cluster.calls.slice(seen).filter((method) => method === "getTransaction").length > 2);
  expect(careful.runner.calls.length).toBe(0);
  cluster.finalizedLag = 0;
  expect(await selling).toMatchObject({ status: 202 });
  await careful.runner.waitFor(1);
  expect(await cluster.balanceOf(parts.seller, parts.mint)).toBe(received + PRICE);
});
