import { expect, onTestFinished, test } from "vitest";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
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
  const chain = new SettlerChain({
    network,
    rpcUrl: anvil.rpcUrl,
    timeoutMs: 60_000,
    telemetry: NO_TELEMETRY,
  });
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
