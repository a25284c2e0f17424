import { address } from "@solana/kit";
import { pino } from "pino";
import { expect, it, onTestFinished, vi } from "vitest";
import { monotonicClock } from "../../../src/core/clock.ts";
import { readKey } from "../../../src/parts/solana/key.ts";
import { toBase58 } from "../../../src/parts/solana/portable/addresses.ts";
import { OwnChain } from "../../../src/parts/solana/settler/own-chain.ts";
import { SolanaSender } from "../../../src/parts/solana/settler/sender.ts";
import { TransferSigner } from "../../../src/parts/solana/settler/transfer-signer.ts";
import { Changes } from "../../../src/parts/transactions/changes.ts";
import { TRANSACTIONS } from "../../../src/parts/transactions/store/module.ts";
import {
  SOLANA_NETWORK,
  solanaAccount,
  solanaKeyBytes,
  tokenAccountOf,
} from "../../helpers/solana-cluster.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { until } from "../../helpers/until.ts";
import { startSolanaParts } from "./harness.ts";

const parts = startBeforeAll(startSolanaParts);
const queueName = `${SOLANA_NETWORK}/transfers`;
const AMOUNT = 10_000n;
const SOL = 1_000_000_000n;
let accounts = 50;

/** Starts a sender of transfers with an account, a payee and a store of its own. Its wall clock can be set ahead. */
async function startTransfers({ lamports = SOL, tokens = 10n * AMOUNT } = {}) {
  const { cluster, mint } = parts;
  const number = accounts++;
  const key = readKey(toBase58(await solanaKeyBytes(number)));
  if (key === undefined) throw new Error("unreachable");
  const { address: payee } = await solanaAccount(accounts++);
  cluster.airdrop(address(key.address), lamports);
  await cluster.fund(address(key.address), mint, tokens);
  const { store, stop } = await openTestStore();
  const journal = store.of(TRANSACTIONS);
  const logger = pino({ level: "silent" });
  const chain = new OwnChain({ network: SOLANA_NETWORK, rpcUrl: cluster.rpcUrl, rpcTimeoutMs: 5_000 });
  const time = { aheadMs: 0 };
  const watch = { onShort: vi.fn(), onDelay: vi.fn() };
  const signer = new TransferSigner(watch, key, chain);
  const sender = new SolanaSender({
    ...{ network: queueName, owner: "test", journal, locks: store, isShared: true, chain, logger, signer },
    changes: new Changes(),
    clock: monotonicClock,
    now: () => Date.now() + time.aheadMs,
  });
  await sender.start();
  onTestFinished(async () => {
    Object.assign(cluster, { dropsTransactions: false, forgetsSignatures: false, finalizedLag: 0 });
    await sender.stop();
    await stop();
  });
  const destination = await tokenAccountOf(payee, mint);
  const queued = { mint, decimals: 6, amount: String(AMOUNT), owner: payee, destination };
  const queue = async (reference: string, change: object = {}) => {
    const data = JSON.stringify({ ...queued, ...change });
    await journal.queueTransaction({ network: queueName, reference, to: destination, data });
  };
  const find = async (reference: string) => (await journal.findTransactions(queueName, [reference]))[0];
  const hashOf = async (reference: string) => (await find(reference))?.signed?.hash;
  const stateOf = async (reference: string) => (await find(reference))?.state;
  const received = async () => (await cluster.balanceOf(payee, mint)) ?? 0n;
  return { queue, find, hashOf, stateOf, received, time, payee, signer, watch };
}

/** Counts the calls of a method of the RPC from now on. */
function watchCalls(method: string): () => number {
  const before = parts.cluster.calls.length;
  return () => parts.cluster.calls.slice(before).filter((one) => one === method).length;
}

it("A transfer makes the payer's token account if there is none, and moves the amount", async () => {
  const { queue, stateOf, received, find } = await startTransfers();
  expect(await received()).toBe(0n);
  await queue("transfer-1");
  await until(async () => (await stateOf("transfer-1")) === "succeeded");
  expect(await received()).toBe(AMOUNT);
  const landed = parts.cluster.landed.at(-1);
  expect(await find("transfer-1")).toMatchObject({ mined: { hash: landed?.signature } });
  expect(landed?.memo).toMatch(/^\[\d+\] transfer-1 \d+ [0-9a-f]{16}$/);
  await queue("transfer-2");
  await until(async () => (await stateOf("transfer-2")) === "succeeded");
  expect(await received()).toBe(2n * AMOUNT);
});

it("A transfer that no block has is signed anew once its blockhash has expired at a finalized block, and not before", async () => {
  const { cluster } = parts;
  const { queue, hashOf, stateOf, received, time } = await startTransfers();
  cluster.dropsTransactions = true;
  await queue("transfer-1");
  await until(async () => (await hashOf("transfer-1")) !== undefined);
  const first = await hashOf("transfer-1");
  // The newest finalized block is older than the blockhash: it knows no such blockhash.
  cluster.finalizedLag = 10_000;
  time.aheadMs = 100_000;
  const early = watchCalls("isBlockhashValid");
  await until(() => early() > 1);
  expect(await hashOf("transfer-1")).toBe(first);
  // The blockhash has expired at the newest block, and not at the newest finalized one.
  cluster.passSlots(200);
  cluster.finalizedLag = 100;
  const still = watchCalls("isBlockhashValid");
  await until(() => still() > 1);
  expect(await hashOf("transfer-1")).toBe(first);
  cluster.finalizedLag = 0;
  await until(async () => ![first, undefined].includes(await hashOf("transfer-1")));
  cluster.dropsTransactions = false;
  await until(async () => (await stateOf("transfer-1")) === "succeeded");
  expect(await received()).toBe(AMOUNT);
});

it("A transfer that landed is not signed anew although the RPC finds no transaction by its signature", async () => {
  const { cluster } = parts;
  const { queue, hashOf, stateOf, received, time } = await startTransfers();
  cluster.forgetsSignatures = true;
  await queue("transfer-1");
  await until(async () => (await received()) === AMOUNT);
  const first = await hashOf("transfer-1");
  cluster.passSlots(200);
  time.aheadMs = 100_000;
  const searches = watchCalls("getSignaturesForAddress");
  await until(() => searches() > 1);
  expect(await hashOf("transfer-1")).toBe(first);
  cluster.forgetsSignatures = false;
  await until(async () => (await stateOf("transfer-1")) === "succeeded");
  expect(await received()).toBe(AMOUNT);
});

it("A transfer whose blocks the RPC has dropped is not signed anew until the operator says that no block has it", async () => {
  const { cluster } = parts;
  const { queue, hashOf, time, signer, received } = await startTransfers();
  cluster.dropsTransactions = true;
  await queue("transfer-1");
  await until(async () => (await hashOf("transfer-1")) !== undefined);
  const first = await hashOf("transfer-1");
  cluster.passSlots(200);
  cluster.firstSlot = Number.MAX_SAFE_INTEGER;
  onTestFinished(() => {
    cluster.firstSlot = 0;
  });
  time.aheadMs = 100_000;
  const asked = watchCalls("getFirstAvailableBlock");
  await until(() => asked() > 1);
  expect(await hashOf("transfer-1")).toBe(first);
  expect(signer.isLost(first ?? "")).toBe(true);
  signer.giveUp("another transaction");
  const again = watchCalls("getFirstAvailableBlock");
  await until(() => again() > 1);
  expect(await hashOf("transfer-1")).toBe(first);
  cluster.dropsTransactions = false;
  signer.giveUp(first ?? "");
  await until(async () => (await received()) === AMOUNT);
  expect(await hashOf("transfer-1")).not.toBe(first);
});

it("A transfer waits while its account lacks the SOL for fee and rent, and is sent once the account has it", async () => {
  const { queue, stateOf, received, watch } = await startTransfers({ lamports: 2_900_000n });
  await queue("transfer-1");
  const asked = watchCalls("getBalance");
  await until(() => asked() > 1);
  expect(await stateOf("transfer-1")).toBe("queued");
  const { address: account } = await solanaAccount(accounts - 2);
  expect(watch.onShort.mock.calls).toEqual([[account, "SOL"]]);
  parts.cluster.airdrop(account, SOL);
  await until(async () => (await stateOf("transfer-1")) === "succeeded");
  expect(await received()).toBe(AMOUNT);
});

it.each(["BlockhashNotFound", "InsufficientFundsForFee", "AccountInUse"])(
  "A transfer waits while its simulation ends with %s, and is sent once it does not",
  async (error) => {
    const { cluster } = parts;
    const { queue, stateOf, received, watch } = await startTransfers();
    cluster.simulationError = error;
    onTestFinished(() => {
      cluster.simulationError = undefined;
    });
    await queue("transfer-1");
    const simulated = watchCalls("simulateTransaction");
    await until(() => simulated() > 2);
    expect(await stateOf("transfer-1")).toBe("queued");
    expect(watch.onDelay.mock.calls).toEqual([["transfer-1", expect.stringContaining(error)]]);
    cluster.simulationError = undefined;
    await until(async () => (await stateOf("transfer-1")) === "succeeded");
    expect(await received()).toBe(AMOUNT);
  },
);

it("A transfer that would fail is dropped with the node's reason, and is never signed", async () => {
  const { queue, find, stateOf } = await startTransfers({ tokens: AMOUNT - 1n });
  const landed = parts.cluster.landed.length;
  await queue("transfer-1");
  await until(async () => (await stateOf("transfer-1")) === "dropped");
  expect(await find("transfer-1")).toMatchObject({ reason: expect.stringContaining("InstructionError") });
  expect(parts.cluster.landed.length).toBe(landed);
});
