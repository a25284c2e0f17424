import { pino } from "pino";
import { expect, it, onTestFinished } from "vitest";
import { monotonicClock } from "../../../src/core/clock.ts";
import { readKey } from "../../../src/parts/solana/key.ts";
import { toBase58 } from "../../../src/parts/solana/portable/addresses.ts";
import { OwnChain } from "../../../src/parts/solana/settler/own-chain.ts";
import { SolanaSender } from "../../../src/parts/solana/settler/sender.ts";
import { readSettlement } from "../../../src/parts/solana/settler/settlement.ts";
import { SettlementSigner } from "../../../src/parts/solana/settler/settlement-signer.ts";
import { Changes } from "../../../src/parts/transactions/changes.ts";
import { TRANSACTIONS } from "../../../src/parts/transactions/store/module.ts";
import { SOLANA_NETWORK, solanaKeyBytes } from "../../helpers/solana-cluster.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { until } from "../../helpers/until.ts";
import { startSolanaParts, startSolanaShop } from "./harness.ts";

const network = SOLANA_NETWORK;
const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(() => startSolanaShop(parts));

/** Starts a sender with a store of its own. Its wall clock can be set ahead. */
async function startSender() {
  const { store, stop } = await openTestStore();
  const journal = store.of(TRANSACTIONS);
  // The fee payer of the shop's facilitator, whose offers the tests sign.
  const feePayer = readKey(toBase58(await solanaKeyBytes(1)));
  if (feePayer === undefined) throw new Error("unreachable");
  const time = { aheadMs: 0 };
  const chain = new OwnChain({ network, rpcUrl: parts.cluster.rpcUrl, rpcTimeoutMs: 5_000 });
  const senderOf = (owner: string) =>
    new SolanaSender({
      ...{ network, owner, journal, locks: store, isShared: true, chain },
      signer: new SettlementSigner(feePayer, chain),
      changes: new Changes(),
      clock: monotonicClock,
      now: () => Date.now() + time.aheadMs,
      logger: pino({ level: "silent" }),
    });
  const sender = senderOf("test");
  await sender.start();
  onTestFinished(async () => {
    await sender.stop();
    await stop();
  });
  const queue = async (): Promise<string> => {
    const payment = await shop.sign();
    const request = { payload: payment, requirements: payment.accepted } as never;
    const read = readSettlement(request, feePayer.address);
    if ("reason" in read) throw new Error(read.reason);
    const { reference, destination: to, base64: data } = read;
    await journal.queueTransaction({ network, reference, to, data });
    return reference;
  };
  const find = async (reference: string) => (await journal.findTransactions(network, [reference]))[0];
  return { queue, find, time, sender, senderOf };
}

it("A transaction has ended once a finalized block has it, with its signature, slot and account", async () => {
  const { cluster } = parts;
  const { queue, find } = await startSender();
  cluster.finalizedLag = 30;
  const reference = await queue();
  await until(async () => (await find(reference))?.signed !== undefined);
  await until(() => cluster.landed.length === 1);
  expect(await find(reference)).toMatchObject({ state: "sent" });
  cluster.finalizedLag = 0;
  await until(async () => (await find(reference))?.state === "succeeded");
  const [landed] = cluster.landed;
  expect(await find(reference)).toMatchObject({
    signed: { account: landed?.accounts[0], hash: landed?.signature },
    mined: { hash: landed?.signature, blockNumber: String(landed?.slot) },
  });
});

it("Of two senders with one journal, one sends, and the other takes over when the first stops", async () => {
  const { cluster } = parts;
  const { queue, find, sender, senderOf } = await startSender();
  await until(() => sender.isOwner);
  const other = senderOf("another");
  await other.start();
  onTestFinished(() => other.stop());
  const asked = cluster.calls.length;
  const landed = cluster.landed.length;
  const first = await queue();
  other.poke();
  await until(async () => (await find(first))?.state === "succeeded");
  expect([sender.isOwner, other.isOwner]).toEqual([true, false]);
  const sends = () => cluster.calls.slice(asked).filter((one) => one === "sendTransaction").length;
  expect(sends()).toBe(1);
  await sender.stop();
  const second = await queue();
  await until(async () => (await find(second))?.state === "succeeded");
  expect(other.isOwner).toBe(true);
  expect(cluster.landed.length - landed).toBe(2);
});

it("A transaction that no block has is given up only once its blockhash has expired at a finalized block", async () => {
  const { cluster } = parts;
  const { queue, find, time } = await startSender();
  cluster.dropsTransactions = true;
  cluster.finalizedLag = 200;
  onTestFinished(() => {
    Object.assign(cluster, { dropsTransactions: false, finalizedLag: 0 });
  });
  const landed = cluster.landed.length;
  // The blockhash is as old as the newest finalized block.
  const reference = await queue();
  cluster.passSlots(200);
  time.aheadMs = 100_000;
  const asked = cluster.calls.length;
  await until(() => cluster.calls.slice(asked).filter((one) => one === "isBlockhashValid").length > 1);
  expect(await find(reference)).toMatchObject({ state: "sent" });
  cluster.finalizedLag = 0;
  await until(async () => (await find(reference))?.state === "dropped");
  expect(await find(reference)).toMatchObject({ reason: "its blockhash expired" });
  expect(cluster.landed.length).toBe(landed);
});
