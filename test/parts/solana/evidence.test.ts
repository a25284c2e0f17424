import { toFacilitatorSvmSigner } from "@x402/svm";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import type { AcceptedToken } from "../../../src/config/config.ts";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import { SolanaEvidence } from "../../../src/parts/solana/evidence.ts";
import { payload } from "../../../src/parts/solana/payment.ts";
import { SOLANA_NETWORK, solanaAccount } from "../../helpers/solana-cluster.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { PRICE, type SolanaShop, startSolanaParts, startSolanaShop } from "./harness.ts";

const parts = startBeforeAll(startSolanaParts);
// Its offers are signed here, and sent to the facilitator alone.
const shop: SolanaShop = startBeforeAll(() => startSolanaShop(parts));

const evidenceAt = (commitment: "confirmed" | "finalized") => {
  const token = { network: SOLANA_NETWORK, asset: parts.mint, rpcUrl: parts.cluster.rpcUrl, commitment };
  return new SolanaEvidence({
    token: token as unknown as AcceptedToken & { rpcUrl: string },
    confirmations: 1n,
    rpcTimeoutMs: 5_000,
    telemetry: NO_TELEMETRY,
  });
};
let evidence: SolanaEvidence;
beforeEach(() => {
  evidence = evidenceAt("finalized");
});

/** An intent whose blockhash may be good yet, unless it ended. */
async function intentOf({ secsLeft = 60, amount = PRICE, extra = {} } = {}) {
  // The offer's blockhash may have ended in an earlier test.
  const changed = { recentBlockhash: "", ...extra };
  const payment = await shop.sign((offer) => ({ ...offer, extra: { ...offer.extra, ...changed } }));
  const { from, nonce } = payload.parse(payment.payload);
  const intent = {
    key: { network: SOLANA_NETWORK, asset: parts.mint, payer: from, nonce },
    payload: JSON.stringify(payment),
    amount: String(amount),
    validBefore: Math.floor(Date.now() / 1000) + secsLeft,
    fromBlock: String(await evidence.startBlock()),
  } as unknown as PaymentIntent;
  return { payment, intent };
}

async function settle(payment: Awaited<ReturnType<typeof intentOf>>["payment"]): Promise<string> {
  await fetch(`${shop.facilitator.url}/settle`, {
    method: "POST",
    body: JSON.stringify({ paymentPayload: payment, paymentRequirements: payment.accepted }),
  });
  return parts.cluster.landed.at(-1)?.signature ?? "";
}

it("A payment is paid by its transaction, whether the facilitator names it or not, or names another", async () => {
  const other = await settle((await intentOf()).payment);
  const { payment, intent } = await intentOf({ secsLeft: 0 });
  expect(await evidence.look(intent)).toMatchObject({ kind: "open" });
  const transaction = await settle(payment);
  for (const named of [transaction, undefined, other])
    expect(await evidence.look(intent, named)).toMatchObject({ kind: "paid", transaction });
  expect(await evidence.findEarlierUse(intent)).toEqual({ transaction });
});

it("Of two transactions under one memo, the transaction that landed pays for its own payment alone", async () => {
  const { payment, intent } = await intentOf();
  // Under the same blockhash, both would be one transaction.
  parts.cluster.passSlots(151);
  const { accepted } = payment;
  const twin = await intentOf({ extra: { memo: accepted.extra.memo } });
  const transaction = await settle({ ...twin.payment, accepted });
  expect(await evidence.look(twin.intent)).toMatchObject({ kind: "paid", transaction });
  expect(await evidence.look(intent)).toMatchObject({ kind: "open" });
  expect(await evidence.findEarlierUse(intent)).toBeUndefined();
});

it("A payment is open until its blockhash is too old at a finalized block, and then not paid", async () => {
  const { cluster } = parts;
  const { intent } = await intentOf({ secsLeft: 0 });
  expect(await evidence.findEarlierUse(intent)).toBeUndefined();
  cluster.finalizedLag = 40;
  cluster.passSlots(160);
  expect(await evidence.look(intent)).toMatchObject({ kind: "open" });
  cluster.finalizedLag = 0;
  expect(await evidence.look({ ...intent, validBefore: intent.validBefore + 60 })).toMatchObject({
    kind: "open",
  });
  expect(await evidence.look(intent)).toMatchObject({ kind: "not_paid" });
});

it("A finalized block that is older than the payment decides nothing", async () => {
  const { cluster } = parts;
  const { intent } = await intentOf({ secsLeft: 0 });
  cluster.passSlots(160);
  cluster.finalizedLag = 20;
  const ahead = { ...intent, fromBlock: String(Number(intent.fromBlock) + 30) };
  expect(await evidence.look(ahead)).toMatchObject({ kind: "open" });
  cluster.finalizedLag = 0;
});

it("One observation decides a payment behind two nodes that answer by turns, whichever of them is behind", async () => {
  const { cluster } = parts;
  onTestFinished(() => {
    cluster.otherNodeLag = 0;
  });
  for (const isEven of [true, false]) {
    const lost = await intentOf({ secsLeft: 0 });
    cluster.passSlots(400);
    const { payment, intent } = await intentOf({ secsLeft: 0 });
    await settle(payment);
    cluster.passSlots(10);
    const first = async () => {
      if ((cluster.calls.length % 2 === 0) !== isEven) await evidence.startBlock();
    };
    cluster.otherNodeLag = 20;
    await first();
    expect(await evidence.look(lost.intent)).toMatchObject({ kind: "not_paid" });
    await first();
    expect(await evidence.look(intent)).toMatchObject({ kind: "paid" });
    cluster.otherNodeLag = 0;
  }
});

it("A payment is left to the operator when the node no longer has the blocks since it began", async () => {
  const { cluster } = parts;
  const { payment, intent } = await intentOf({ secsLeft: 0 });
  await settle(payment);
  cluster.passSlots(400);
  cluster.firstSlot = Number(intent.fromBlock) + 300;
  expect(await evidence.look(intent)).toMatchObject({ kind: "unknown" });
  cluster.firstSlot = 0;
  expect(await evidence.look(intent)).toMatchObject({ kind: "paid" });
});

it("A transaction that failed is not paid", async () => {
  const { cluster } = parts;
  const { payment, intent } = await intentOf();
  const units = (await cluster.balanceOf(parts.payer, parts.mint)) ?? 0n;
  const feePayer = await solanaAccount(1);
  const signer = toFacilitatorSvmSigner(feePayer, { defaultRpcUrl: cluster.rpcUrl });
  const { transaction } = payment.payload as { transaction: string };
  const signed = await signer.signTransaction(transaction, feePayer.address, SOLANA_NETWORK);
  await cluster.fund(parts.payer, parts.mint, 0n);
  await signer.sendTransaction(signed, SOLANA_NETWORK);
  await cluster.fund(parts.payer, parts.mint, units);
  const { signature, err } = cluster.landed.at(-1) ?? {};
  expect(err).not.toBeNull();
  for (const named of [signature, undefined])
    expect(await evidence.look({ ...intent, validBefore: 0 }, named)).toMatchObject({ kind: "not_paid" });
});

it("A transaction that moved another amount is left to the operator", async () => {
  const { payment, intent } = await intentOf({ amount: PRICE + 1n });
  const transaction = await settle(payment);
  expect(await evidence.look(intent, transaction)).toMatchObject({ kind: "unknown" });
});

it("An RPC of another cluster decides nothing", async () => {
  const token = {
    network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
    asset: parts.mint,
    rpcUrl: parts.cluster.rpcUrl,
  };
  const elsewhere = new SolanaEvidence({
    token: token as unknown as AcceptedToken & { rpcUrl: string },
    confirmations: 1n,
    rpcTimeoutMs: 5_000,
    telemetry: NO_TELEMETRY,
  });
  const { intent } = await intentOf({ secsLeft: 0 });
  await expect(elsewhere.look(intent)).rejects.toThrow("expected chain 5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp");
});

it("A node on another fork shows a payment open while it can land, and not paid once its fork is final", async () => {
  const { cluster } = parts;
  const { payment, intent } = await intentOf();
  cluster.finalizedLag = 40;
  onTestFinished(() => {
    cluster.finalizedLag = 0;
    cluster.isOnAnotherFork = false;
  });
  const transaction = await settle(payment);
  for (const named of [transaction, undefined]) {
    expect(await evidence.look(intent, named)).toMatchObject({ kind: "open" });
    cluster.isOnAnotherFork = true;
    expect(await evidence.look(intent, named)).toMatchObject({ kind: "open" });
    cluster.isOnAnotherFork = false;
  }
  cluster.passSlots(160);
  const ended = { ...intent, validBefore: 0 };
  expect(await evidence.look(ended)).toMatchObject({ kind: "paid", transaction });
  cluster.isOnAnotherFork = true;
  expect(await evidence.look(ended)).toMatchObject({ kind: "open" });
  cluster.finalizedLag = 0;
  expect(await evidence.look(ended, transaction)).toMatchObject({ kind: "not_paid" });
});

it("At the commitment confirmed, a payment is paid in a confirmed block, which a fork may replace until it is finalized", async () => {
  const { cluster } = parts;
  const early = evidenceAt("confirmed");
  const { payment, intent } = await intentOf();
  cluster.passSlots(1);
  const transaction = await settle(payment);
  const asked = [transaction, undefined];
  for (const named of asked) {
    const paid = await early.look(intent, named);
    expect(paid).toEqual({ kind: "paid", transaction, blockNumber: expect.any(String) });
  }
  cluster.finalizedLag = 1;
  for (const named of asked) {
    expect(await evidence.look(intent, named)).toMatchObject({ kind: "open" });
    expect(await early.look(intent, named)).toMatchObject({ kind: "paid", transaction, mayBeReplaced: true });
  }
  cluster.fork("fails");
  for (const named of asked) expect(await early.look(intent, named)).toMatchObject({ kind: "open" });
  cluster.finalizedLag = 0;
  for (const named of asked) expect(await early.look(intent, named)).toMatchObject({ kind: "not_paid" });
});

it("At the commitment confirmed, a payment that a fork took away is not paid once its blockhash has expired", async () => {
  const { cluster } = parts;
  const early = evidenceAt("confirmed");
  const { payment, intent } = await intentOf({ secsLeft: 0 });
  cluster.passSlots(1);
  const transaction = await settle(payment);
  cluster.finalizedLag = 1;
  expect(await early.look(intent, transaction)).toMatchObject({ kind: "paid" });
  cluster.fork("loses");
  for (const named of [transaction, undefined])
    expect(await early.look(intent, named)).toMatchObject({ kind: "open" });
  cluster.finalizedLag = 0;
  cluster.passSlots(160);
  for (const named of [transaction, undefined])
    expect(await early.look(intent, named)).toMatchObject({ kind: "not_paid" });
});

it("At the commitment confirmed, a confirmed transaction that moved another amount decides nothing", async () => {
  const { cluster } = parts;
  const { payment, intent } = await intentOf({ amount: PRICE + 1n });
  cluster.passSlots(1);
  const transaction = await settle(payment);
  cluster.finalizedLag = 1;
  for (const named of [transaction, undefined])
    expect(await evidenceAt("confirmed").look(intent, named)).toMatchObject({ kind: "open" });
  cluster.finalizedLag = 0;
});
