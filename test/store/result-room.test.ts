import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { ResultRoom } from "../../src/store/result-room.ts";
import { openTestStore } from "../helpers/test-store.ts";
import { claimOne, paidCall, paidId, paymentIntent } from "./store-fixtures.ts";

/** Time that the first look takes. */
const LOOK_MS = 20;
/** After it, what was just finished is older than nothing. */
const OLDER_MS = 5;

describe("The room for results", () => {
  it("is full right after a start, by what the store has", async () => {
    const room = new ResultRoom({
      maxBytes: 100,
      sum: () => sleep(LOOK_MS).then(() => 100),
      logger: undefined,
    });
    expect(await room.refusal()).toMatchObject({ code: "store_full", status: 503 });
    room.stop();
  });

  it("is full once so much was added, and free again once the store has less", async () => {
    let stored = 0;
    const room = new ResultRoom({ maxBytes: 100, sum: async () => stored, logger: undefined });
    expect(await room.refusal()).toBeUndefined();
    room.add(99);
    expect(await room.refusal()).toBeUndefined();
    room.add(1);
    expect(await room.refusal()).toMatchObject({ code: "store_full" });
    stored = 10;
    await expect.poll(() => room.refusal(), { interval: 200 }).toBeUndefined();
    room.stop();
  });

  it("is free while the size of the store is unknown", async () => {
    const room = new ResultRoom({
      ...{ maxBytes: 1, sum: () => Promise.reject(new Error("gone")), logger: undefined },
    });
    expect(await room.refusal()).toBeUndefined();
    room.stop();
  });
});

it("A store whose results are full begins no payment, also after a restart, until they are gone", async () => {
  const opened = await openTestStore({ maxResultsBytes: 5 });
  await paidId(opened.store, 1);
  await opened.store.ack(await claimOne(opened.store), {
    body: Buffer.from("large"),
    contentType: "text/plain",
  });
  await expect(paidId(opened.store, 2)).rejects.toMatchObject({ code: "store_full" });
  expect(await opened.store.beginPayment(paymentIntent(1), paidCall())).toMatchObject({
    kind: "payment_known",
  });
  const { key, payTo, amount, transferMethod } = paymentIntent(3);
  const moved = { transaction: "0xa", blockNumber: "1", by: "an operator", note: "" };
  await opened.store.adoptPayment({ ...{ key, payTo, amount, transferMethod }, ...moved });
  expect(await opened.store.beginPayment(paymentIntent(3), paidCall())).toMatchObject({ kind: "begun" });
  await opened.store.close();
  const again = await opened.openAgain();
  try {
    await expect(paidId(again, 2)).rejects.toMatchObject({ code: "store_full" });
    await sleep(OLDER_MS);
    await again.prune({ kind: "results", ageMs: 0, after: 0 });
    const isSold = () =>
      paidId(again, 2).then(
        () => true,
        () => false,
      );
    await expect.poll(isSold, { interval: 500 }).toBe(true);
  } finally {
    await again.close();
    await opened.stop();
  }
});
