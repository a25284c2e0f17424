import { expect, test } from "vitest";
import type { DeliveryCheck } from "../../src/delivery/dispatcher.ts";
import type { Store } from "../../src/store/store.ts";
import { until } from "../helpers/until.ts";
import { paidCall, paymentIntent } from "../store/store-fixtures.ts";
import { startDelivery } from "./harness.ts";

/** Accepts a JobCall of a deferred payment. @returns its call ID */
async function begin(store: Store, number: number): Promise<number> {
  const begun = await store.beginPayment(paymentIntent(number, { charge: "used" }), paidCall());
  if (begun.kind !== "begun") throw new Error(begun.kind);
  return begun.callId;
}

/** A check whose answers the test gives, by call ID. */
function answeredByHand(): { check: DeliveryCheck; answer: Map<number, (reason?: string) => void> } {
  const answer = new Map<number, (reason?: string) => void>();
  return {
    answer,
    check: (callId) => new Promise((resolve) => answer.set(callId, resolve)),
  };
}

test("A JobCall of a deferred payment takes up its slot while it is checked, and then goes out", async () => {
  const { check, answer } = answeredByHand();
  const { store, connect, accept, server } = await startDelivery({ check });
  const callId = await begin(store, 1);
  const stream = await connect().subscribe({ maxInFlight: 2 });
  await until(() => answer.has(callId));
  const others = [await accept(), await accept()];
  // The other slot is free, for JobCalls that need no check.
  expect(await stream.next()).toMatchObject({ callId: BigInt(others[0] ?? 0) });
  expect(server.runners()).toMatchObject([{ inFlight: 2 }]);
  answer.get(callId)?.();
  expect(await stream.next()).toMatchObject({ callId: BigInt(callId), attempt: 1 });
  expect(stream.calls).toHaveLength(2);
});

test("A JobCall whose payer cannot pay becomes a dead letter, is not charged, and leaves its slot to others", async () => {
  const { store, connect } = await startDelivery({
    check: (callId) => Promise.resolve(callId === 1 ? "the payer is poor" : undefined),
  });
  const poor = await begin(store, 1);
  const rich = await begin(store, 2);
  const stream = await connect().subscribe({ maxInFlight: 1 });
  expect(await stream.next()).toMatchObject({ callId: BigInt(rich) });
  expect(await store.findCall(poor)).toMatchObject({
    state: "failed",
    reason: "the payer is poor",
    charge: { state: "released", amount: "0" },
  });
  expect(stream.calls).toHaveLength(1);
});

test("A check without an answer lets the JobCall go out", async () => {
  const { store, connect } = await startDelivery({ check: () => Promise.reject(new Error("no chain")) });
  const callId = await begin(store, 1);
  expect(await (await connect().subscribe()).next()).toMatchObject({ callId: BigInt(callId) });
});

test("A JobCall whose stream ends while it is checked was not delivered: its next stream may take others too", async () => {
  const { check, answer } = answeredByHand();
  const { store, connect, accept } = await startDelivery({ check, maxAttempts: 1 });
  const callId = await begin(store, 1);
  const leaving = await connect().subscribe();
  await until(() => answer.has(callId));
  const late = answer.get(callId);
  answer.clear();
  leaving.cancel();
  const staying = await connect().subscribe();
  await until(() => answer.has(callId));
  late?.("the payer was poor then");
  const other = await accept();
  expect(await staying.next()).toMatchObject({ callId: BigInt(other) });
  answer.get(callId)?.();
  expect(await staying.next()).toMatchObject({ callId: BigInt(callId), attempt: 2 });
});
