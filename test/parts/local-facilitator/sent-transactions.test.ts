import { expect, onTestFinished, test } from "vitest";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import { readSigned } from "../../../src/parts/transactions/account.ts";
import { SettlerChain } from "../../../src/parts/transactions/chain.ts";
import { SentTransactions, type SignedRecord } from "../../../src/parts/transactions/sent-transactions.ts";
import { startSettlerChain } from "./harness.ts";

test("Transactions that become final within a second end together", async () => {
  const { anvil, network, request, startSettler, stop } = await startSettlerChain();
  onTestFinished(stop);
  const settler = await startSettler();
  onTestFinished(() => settler.stop());
  for (let payments = 0; payments < 3; payments += 1)
    expect(await settler.settle(await request())).toMatchObject({ kind: "success" });
  const [first, ...others] = (await settler.sent()) as [SignedRecord, ...SignedRecord[]];
  expect(others).toHaveLength(2);
  await anvil.client.mine({ blocks: 13 });

  let now = 5_000;
  const chain = chainAt(network, anvil.rpcUrl);
  const head = await chain.head();
  const sent = new SentTransactions(chain, () => now);
  const ended = async () => (await sent.final(head)).map(({ reference }) => reference);
  sent.add(first, head);
  await sent.look(head);
  expect(await ended()).toEqual([first.reference]);
  sent.remove(first.reference);

  for (const record of others) sent.add(record, head);
  await sent.look(head);
  now += 999;
  expect(await ended()).toEqual([]);
  now += 1;
  expect(await ended()).toEqual(others.map(({ reference }) => reference));
});

test("A transaction is stuck after one block if the base fee is above its fee, and after five blocks otherwise", async () => {
  const { anvil, network, request, startSettler, withoutMining, untilPending, stop } =
    await startSettlerChain();
  onTestFinished(stop);
  const settler = await startSettler();
  onTestFinished(() => settler.stop());
  await withoutMining(async () => {
    const answer = settler.settle(await request());
    await untilPending(1);
    const [record] = (await settler.sent()) as [SignedRecord];
    const { maxFeePerGas } = readSigned(record.signed.raw).fees;

    const chain = chainAt(network, anvil.rpcUrl);
    const head = await chain.head();
    const sent = new SentTransactions(chain, () => 5_000);
    sent.add(record, head);
    const stuckAfter = async (blocks: bigint, baseFeePerGas: bigint) =>
      (await sent.look({ ...head, number: head.number + blocks, baseFeePerGas })).stuck.length;
    expect(await stuckAfter(0n, maxFeePerGas + 1n)).toBe(0);
    expect(await stuckAfter(1n, maxFeePerGas + 1n)).toBe(1);
    expect(await stuckAfter(4n, maxFeePerGas)).toBe(0);
    expect(await stuckAfter(5n, maxFeePerGas)).toBe(1);
    await anvil.client.mine({ blocks: 1 });
    expect(await answer).toMatchObject({ kind: "success" });
  });
});

function chainAt(network: string, rpcUrl: string): SettlerChain {
  return new SettlerChain({ network, rpcUrl, timeoutMs: 60_000, telemetry: NO_TELEMETRY });
}
