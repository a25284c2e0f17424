import type { PaymentPayload } from "@x402/core/types";
import { expect, it, onTestFinished } from "vitest";
import { readSettlement } from "../../../src/parts/solana/settler/settlement.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { solanaAccount } from "../../helpers/solana-cluster.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { changed, PRICE, startSolanaParts, startSolanaShop } from "./harness.ts";
import { FEE_PAYER, settledHere } from "./own-settlement.ts";

const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(() =>
  startSolanaShop(parts, {
    start: async (options) => startEmbeddedJobgate({ config: await settledHere(options.config, parts) }),
  }),
);

const received = async () => (await parts.cluster.balanceOf(parts.seller, parts.mint)) ?? 0n;

it("jobgate settles a payment as the fee payer of its offer, and calls no facilitator", async () => {
  const { address: feePayer } = await solanaAccount(FEE_PAYER);
  const before = await received();
  const payment = await shop.sign();
  expect(payment.accepted.extra).toMatchObject({ feePayer });
  expect(await shop.send(payment)).toMatchObject({ status: 202 });
  expect(await received()).toBe(before + PRICE);
  expect(parts.cluster.landed.at(-1)?.accounts[0]).toBe(feePayer);
  expect(shop.facilitator.counts).toMatchObject({ verify: 0, settle: 0 });
});

it("The same payment sent at once by several has one transaction and one job", async () => {
  const landed = parts.cluster.landed.length;
  const payment = await shop.sign();
  parts.cluster.passSlots(1);
  const answers = await Promise.all([1, 2, 3].map(() => shop.send(payment)));
  expect(new Set(answers.map(({ call_id }) => call_id)).size).toBe(1);
  expect(parts.cluster.landed.length).toBe(landed + 1);
});

it("A payment that cannot pay is refused before it is sent", async () => {
  const landed = parts.cluster.landed.length;
  const payment = await shop.sign(undefined, 9);
  expect(await shop.send(payment)).toMatchObject({ status: 402, code: "payment_invalid", charged: false });
  expect(parts.cluster.landed.length).toBe(landed);
});

it("A transaction that the cluster lost is broadcast again until it lands", async () => {
  const { cluster } = parts;
  cluster.dropsTransactions = true;
  onTestFinished(() => {
    cluster.dropsTransactions = false;
  });
  const before = await received();
  const asked = cluster.calls.length;
  const selling = shop.send(await shop.sign());
  await until(() => cluster.calls.slice(asked).includes("sendTransaction"));
  cluster.dropsTransactions = false;
  expect(await selling).toMatchObject({ status: 202 });
  expect(await received()).toBe(before + PRICE);
});

it("An account below min_balance takes no payment", async () => {
  const poor = await startSolanaShop(parts, {
    start: async (options) =>
      startEmbeddedJobgate({ config: await settledHere(options.config, parts, { minBalance: "1000" }) }),
  });
  onTestFinished(poor.stop);
  const landed = parts.cluster.landed.length;
  expect(await poor.send(await poor.sign())).toMatchObject({ status: 503, code: "settler_unfunded" });
  expect(parts.cluster.landed.length).toBe(landed);
});

it("A sold payment that a fork loses is broadcast again by its own bytes, and is paid and sold once", async () => {
  const { cluster } = parts;
  cluster.passSlots(2);
  cluster.finalizedLag = 1;
  cluster.passSlots(1);
  onTestFinished(() => {
    cluster.finalizedLag = 0;
  });
  const before = await received();
  const ran = shop.runner.calls.length;
  const payment = await shop.sign();
  const answer = await shop.send(payment);
  expect(answer).toMatchObject({ status: 202 });
  const sold = cluster.landed.at(-1);
  cluster.fork("loses");
  expect(await received()).toBe(before);
  await until(() => cluster.landed.at(-1)?.signature === sold?.signature);
  expect(cluster.landed.at(-1)?.base64).toBe(sold?.base64);
  cluster.finalizedLag = 0;
  expect(await received()).toBe(before + PRICE);
  expect(await shop.send(payment)).toMatchObject({ status: 202, call_id: answer.call_id });
  await shop.runner.waitFor(ran + 1);
  expect(shop.runner.calls.length).toBe(ran + 1);
});

/** Price of a compute unit as the official client sets it. */
const PRICE_DATA = Buffer.from([9, 3, 1, 0, 0, 0, 0, 0, 0, 0]);

it("A fee payer signs a compute price up to the official facilitator's limit, and none above", async () => {
  const { address: feePayer } = await solanaAccount(FEE_PAYER);
  const payment = await shop.sign();
  const priced = (price: bigint) =>
    changed(payment, (bytes) => void bytes.writeBigUInt64LE(price, bytes.indexOf(PRICE_DATA) + 2));
  const read = (one: PaymentPayload) =>
    readSettlement({ payload: one, requirements: one.accepted } as never, feePayer);
  expect(read(await priced(5_000_000n))).toMatchObject({ payer: parts.payer });
  expect(read(await priced(5_000_001n))).toEqual({ reason: "compute_price_too_high" });
});

/** Limit of compute units as the official client sets it: 20,000. */
const LIMIT_DATA = Buffer.from([5, 2, 32, 78, 0, 0]);

it("A payment whose compute units cost the fee payer over 0.0001 SOL is refused before it is sent", async () => {
  const { address: feePayer } = await solanaAccount(FEE_PAYER);
  const landed = parts.cluster.landed.length;
  const payment = await shop.sign();
  const limited = (units: number) =>
    changed(payment, (bytes) => {
      bytes.writeUInt32LE(units, bytes.indexOf(LIMIT_DATA) + 2);
      bytes.writeBigUInt64LE(5_000_000n, bytes.indexOf(PRICE_DATA) + 2);
    });
  const read = (one: PaymentPayload) =>
    readSettlement({ payload: one, requirements: one.accepted } as never, feePayer);
  expect(read(await limited(20_000))).toMatchObject({ payer: parts.payer });
  expect(read(await limited(20_001))).toEqual({ reason: "compute_fee_too_high" });
  expect(await shop.send(await limited(1_400_000))).toMatchObject({
    status: 402,
    code: "payment_invalid",
    charged: false,
    error: expect.stringContaining("compute_fee_too_high"),
  });
  expect(parts.cluster.landed.length).toBe(landed);
});

it.each([
  ["another amount", { amount: "9999" }, "amount_mismatch"],
  ["another recipient", { payTo: "9kXF1MqWfXSTJwQmtWJHqGhtCvUiPwEkgZSUBYY4qVpc" }, "recipient_mismatch"],
  ["another token", { asset: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v" }, "mint_mismatch"],
  ["another memo", { extra: { memo: "another" } }, "memo_mismatch"],
])("A fee payer does not sign for a seller who requires %s", async (_, change, reason) => {
  const { address: feePayer } = await solanaAccount(FEE_PAYER);
  const payment = await shop.sign();
  const requirements = { ...payment.accepted, ...change };
  expect(readSettlement({ payload: payment, requirements } as never, feePayer)).toEqual({ reason });
});

it("A fee payer does not sign for another one's transaction", async () => {
  const { address: another } = await solanaAccount(1);
  const payment = await shop.sign();
  const request = { payload: payment, requirements: payment.accepted } as never;
  expect(readSettlement(request, another)).toEqual({ reason: "fee_payer_mismatch" });
});

it("A payer's signature of another message is refused", async () => {
  const { address: feePayer } = await solanaAccount(FEE_PAYER);
  const payment = await shop.sign();
  const bytes = Buffer.from(payment.payload.transaction as string, "base64");
  bytes.writeUInt8(bytes.readUInt8(70) ^ 1, 70);
  const forged = { ...payment, payload: { transaction: bytes.toString("base64") } };
  expect(readSettlement({ payload: forged, requirements: payment.accepted } as never, feePayer)).toEqual({
    reason: "invalid_signature",
  });
});
