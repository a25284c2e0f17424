import { rm } from "node:fs/promises";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import type { RetentionConfig } from "../../../src/parts/retention/config.ts";
import { Pruner } from "../../../src/parts/retention/pruner.ts";
import { isBalanced } from "../../../src/store/rules/payments.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import {
  acceptId,
  claimCalls,
  encodeTestCall,
  paidId,
  paymentIntent,
  START_MS,
} from "../../store/store-fixtures.ts";

const DAY_MS = 86_400_000;

/** A store with a clock, a pruner of it, and three calls that ended: two paid ones, of which one is a dead letter. */
async function given(retention: RetentionConfig) {
  let now = START_MS;
  const clock = () => now;
  const opened = await openTestStore({ encodeJobCall: encodeTestCall, clock });
  const { store } = opened;
  onTestFinished(() => opened.stop());
  const pruner = new Pruner({ store, retention, clock, logger: pino({ level: "silent" }) });
  const ids = [await paidId(store, 1), await paidId(store, 2), await acceptId(store)];
  const [done, failed, webhook] = await claimCalls(store);
  if (!done || !failed || !webhook) throw new Error("expected three calls");
  await store.ack(done, { body: Buffer.from("result"), contentType: "text/plain" });
  await store.fail(failed, "no good");
  await store.ack(webhook);
  return {
    store,
    pruner,
    ids,
    pass(days: number) {
      now += days * DAY_MS;
    },
    async counts() {
      const { items } = await store.listCalls({ limit: 10 });
      const payments = (await store.listPayments({ limit: 10 })).items.length;
      const totals = await store.totals();
      expect(isBalanced(totals)).toBe(true);
      const state = (await store.findCall(ids[0] ?? 0))?.state;
      return { listed: items.length, payments, dead: totals.calls.dead, result: state };
    },
  };
}

test("Each kind is forgotten at its own age, and nothing else is", async () => {
  const { pruner, pass, counts, store } = await given({ resultsDays: 30, callsDays: 90 });
  await pruner.runRound();
  expect(await counts()).toEqual({ listed: 3, payments: 2, dead: 1, result: "succeeded" });
  pass(31);
  await pruner.runRound();
  expect(await counts()).toEqual({ listed: 3, payments: 2, dead: 1, result: "expired" });
  pass(60);
  await pruner.runRound();
  expect(await counts()).toEqual({ listed: 1, payments: 2, dead: 1, result: "expired" });
  pass(10_000);
  await pruner.runRound();
  expect(await counts()).toEqual({ listed: 1, payments: 2, dead: 1, result: "expired" });
  expect(await store.findPayment(paymentIntent(1).key)).toMatchObject({ state: "settled" });
});

test("Dead letters and payments are forgotten where an age is given for them", async () => {
  const ages = { resultsDays: 1, callsDays: 1, paymentsDays: 1, deadLettersDays: 10 };
  const { pruner, pass, counts } = await given(ages);
  pass(9);
  await pruner.runRound();
  expect(await counts()).toEqual({ listed: 1, payments: 1, dead: 1, result: undefined });
  pass(2);
  await pruner.runRound();
  expect(await counts()).toEqual({ listed: 0, payments: 0, dead: 0, result: undefined });
});

test("A pruner forgets in the background until it is stopped", async () => {
  const { pruner, pass, counts } = await given({ resultsDays: 0.0001, callsDays: 0.0001 });
  pass(1);
  await pruner.start();
  await expect.poll(counts, { timeout: 30_000 }).toMatchObject({ listed: 1, result: "expired" });
  await pruner.stop();
  await pruner.stop();
});

test("A round on a store that cannot write fails at once and forgets nothing, and the pruner can be stopped", async () => {
  const opened = await openTestStore({ encodeJobCall: encodeTestCall });
  onTestFinished(() => opened.stop());
  const warned: string[] = [];
  const logger = pino({ level: "warn" }, { write: (line: string) => void warned.push(line) });
  const retention = { resultsDays: 1 / DAY_MS, callsDays: 1 };
  const pruner = new Pruner({ store: opened.store, retention, clock: Date.now, logger });
  await rm(opened.path);
  await expect(pruner.runRound()).rejects.toMatchObject({ code: "store_unavailable" });
  await pruner.start();
  await expect.poll(() => warned.join()).toContain("could not forget old entries; trying again later");
  await pruner.stop();
});
