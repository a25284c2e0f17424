import { expect, test } from "vitest";
import type { ChargeKind } from "../../../src/core/payment.ts";
import {
  type CallRow,
  type CallRows,
  type FinishedCall,
  whenDue,
} from "../../../src/store/machine/call-row.ts";
import { LeaseSteps } from "../../../src/store/machine/leases.ts";
import { Capacity } from "../../../src/store/new-call.ts";
import { toPaymentRow } from "../../../src/store/payment-row.ts";
import type { CallStep } from "../../../src/store/rules/call-steps.ts";
import { AUTHORIZATION_ENDED } from "../../../src/store/rules/charges.ts";
import { paymentIntent, START_MS } from "../store-fixtures.ts";
import { MemoryEffects } from "./memory-effects.ts";

const NOW = START_MS + 1_000;
const LEASE = { callId: 1, leaseToken: "token" };
const BACKOFF = { backoff: { baseMs: 10, maxMs: 10 }, maxAttempts: 3 };
const LEASED: CallRow = {
  call_id: 1,
  origin: "x402",
  job_id: "7",
  service_id: "9",
  attempts: 2,
  forgiven: 0,
  state: "leased",
  visible_at: NOW + 500,
  lease_token: "token",
  subscriber: "printer",
  claimed_at: START_MS,
  history: null,
  progress_percent: null,
  progress_text: null,
  dead_at: null,
  dead_reason: null,
  ceiling: "1001",
  min_charge: null,
  charge_so_far: null,
  order_key: null,
  limited: null,
};

const NOT_LEASED = { lease_token: null, subscriber: null, claimed_at: null };
const BUSY: CallStep = {
  ...{ kind: "delivery", attempt: 1, subscriber: "printer", reason: "paper jam" },
  ...{ from: START_MS - 9, to: START_MS - 1 },
};

/** Steps on one row in memory. */
class OneCall implements CallRows {
  row: CallRow | undefined;
  finished: FinishedCall | undefined;
  readonly capacity = new Capacity(1, 10);
  readonly effects = new MemoryEffects();
  readonly steps = new LeaseSteps(this, this.capacity, this.effects);

  constructor(row: Partial<CallRow> = {}, charge: ChargeKind = "used") {
    this.row = { ...LEASED, ...row };
    const payment = toPaymentRow(paymentIntent(1, { amount: "1001", charge }), 1, START_MS);
    this.effects.paymentRows.rows.set(1, payment);
  }

  find(): CallRow | undefined {
    return this.row;
  }

  findLeased(): CallRow | undefined {
    return this.row;
  }

  addChunk(): void {}

  finish(_row: CallRow, finished: FinishedCall): void {
    this.row = undefined;
    this.finished = finished;
  }

  change(row: CallRow): void {
    this.row = row;
  }

  makeReady(rows: readonly CallRow[]): void {
    this.row = rows[0];
  }

  extend(row: CallRow): void {
    this.row = row;
  }

  drop(): void {
    this.row = undefined;
  }
}

test("An acked JobCall leaves its place, and charges its payment what the runner names", () => {
  const call = new OneCall();
  const result = { body: new Uint8Array([1]), contentType: "a/b" };
  const acked = call.steps.ack(NOW, LEASE, result, { units: "400" });
  expect(acked).toMatchObject({ outcome: "done", charge: { state: "settling", amount: "400" } });
  expect(call.finished).toEqual({ at: NOW, state: "succeeded", result, charge: "400" });
  expect(call.effects.payment(1)).toMatchObject({ state: "settling", amount: "400" });
  expect(call.effects.hasSucceeded(1)).toBe(true);
  expect([call.row, call.capacity.pending]).toEqual([undefined, 0]);
  expect(call.steps.ack(NOW, LEASE)).toEqual({ outcome: "not_found" });
});

test("An ack charges at most the ceiling, and nothing for a payment that is decided or not charged after the job", () => {
  expect(new OneCall().steps.ack(NOW, LEASE, undefined, { units: "1002" })).toMatchObject({
    charge: { amount: "1001" },
  });
  const decided = new OneCall({ charge_so_far: "1" });
  decided.steps.endAuthorization(NOW, 1);
  expect(decided.steps.ack(NOW, LEASE)).toEqual({ outcome: "done" });
  expect(decided.finished?.charge).toBe("1001");
  const prepaid = new OneCall({ ceiling: null });
  expect(prepaid.steps.ack(NOW, LEASE)).toEqual({ outcome: "done" });
  expect(prepaid.finished?.charge).toBeNull();
});

test.each([
  [undefined, "succeeded"],
  [399, "succeeded"],
  [400, "failed"],
])("An ack with status %s ends its JobCall as %s", (status, state) => {
  const call = new OneCall();
  call.steps.ack(NOW, LEASE, { body: new Uint8Array(), contentType: "a/b", status });
  expect(call.finished).toMatchObject({ state });
});

test("An ack after the lease changes nothing", () => {
  const call = new OneCall();
  expect(call.steps.ack(NOW + 500, LEASE)).toEqual({ outcome: "lease_lost" });
  expect(call.steps.ack(NOW, { ...LEASE, leaseToken: "another" })).toEqual({ outcome: "lease_lost" });
  expect([call.row, call.finished, call.capacity.pending]).toEqual([LEASED, undefined, 1]);
});

test("A JobCall is ready once its lease or its delay is over, and keeps the delivery that ended", () => {
  const end = NOW + 500;
  expect(whenDue(LEASED, end - 1, 3)).toBeUndefined();
  const delivery = { kind: "delivery", attempt: 2, subscriber: "printer", from: START_MS, to: end };
  const ready = { state: "ready", visible_at: null, lease_token: null, subscriber: null, claimed_at: null };
  expect(whenDue(LEASED, end + 7, 3)).toEqual({
    ...LEASED,
    ...ready,
    history: [{ ...delivery, reason: "lease expired" }],
  });
  const delayed: CallRow = { ...LEASED, ...NOT_LEASED, state: "delayed", history: [BUSY] };
  expect(whenDue(delayed, end - 1, 3)).toBeUndefined();
  expect(whenDue(delayed, end, 3)).toEqual({ ...delayed, ...ready });
});

test("A JobCall that is due with all attempts used up is a dead letter, with what its last attempt met", () => {
  const end = NOW + 500;
  const dead = { state: "dead", visible_at: null, subscriber: null, dead_at: end };
  const leased = { ...LEASED, history: [BUSY] };
  expect(whenDue(leased, end, 2)).toMatchObject({
    ...{ ...dead, dead_reason: "max_attempts", history: [BUSY, { reason: "lease expired" }] },
  });
  for (const state of ["delayed", "ready"] as const) {
    const row = { ...leased, ...NOT_LEASED, state };
    expect(whenDue(row, end, 2)).toMatchObject({
      ...{ ...dead, dead_reason: "max_attempts: paper jam", history: [BUSY] },
    });
    expect(whenDue({ ...row, forgiven: 1 }, end, 2)?.state).not.toBe("dead");
  }
});

test("A suspect stays delayed until it is claimed, unless its attempts are used up", () => {
  const suspect: CallRow = { ...LEASED, ...NOT_LEASED, state: "delayed", subscriber: "printer" };
  expect(whenDue(suspect, NOW + 500, 3)).toBeUndefined();
  expect(whenDue(suspect, NOW + 500, 2)?.state).toBe("dead");
});

test("A JobCall that is held, dead or ready with attempts left stays as it is", () => {
  for (const state of ["held", "dead"] as const)
    expect(whenDue({ ...LEASED, state }, NOW + 500, 1)).toBeUndefined();
  expect(whenDue({ ...LEASED, state: "ready" }, NOW + 500, 3)).toBeUndefined();
});

test("The end of leases writes JobCalls that are ready, and frees the places of dead letters", () => {
  const call = new OneCall();
  const rows = (call.row && [call.row]) ?? [];
  expect(call.steps.endDue(rows, NOW + 499, 2)).toEqual([]);
  expect([call.row, call.capacity.pending]).toEqual([LEASED, 1]);
  expect(call.steps.endDue(rows, NOW + 500, 3)).toEqual([]);
  expect([call.row?.state, call.capacity.pending]).toEqual(["ready", 1]);
  const [dead] = call.steps.endDue(rows, NOW + 500, 2);
  expect(dead).toBe(call.row);
  expect([call.row?.state, call.capacity.pending]).toEqual(["dead", 0]);
});

test("A retried JobCall keeps its place and the delivery that ended", () => {
  const call = new OneCall();
  expect(call.steps.retry(NOW, LEASE, { ...BACKOFF, delayMs: 0, reason: "paper jam" })).toEqual({
    outcome: "done",
  });
  const delivery = { kind: "delivery", attempt: 2, subscriber: "printer", from: START_MS, to: NOW };
  expect(call.row).toMatchObject({
    ...{ state: "ready", lease_token: null, history: [{ ...delivery, reason: "paper jam" }] },
  });
  expect(call.capacity.pending).toBe(1);
  expect(call.steps.fail(NOW, LEASE, "again")).toEqual({ outcome: "lease_lost" });
});

test("A dead letter leaves its place and releases its payment, after which it cannot be retried", () => {
  const call = new OneCall();
  const { deadLettered } = call.steps.fail(NOW, LEASE, "no ink");
  expect(deadLettered).toMatchObject({ callId: 1, reason: "no ink", deadAt: NOW, released: { amount: "0" } });
  expect(call.effects.payment(1)?.state).toBe("released");
  expect([call.row?.state, call.capacity.pending]).toEqual(["dead", 0]);
  expect(call.steps.retryDeadLetter(NOW + 1, 1)).toBe("buyer_paid_back");
  expect([call.row?.state, call.capacity.pending]).toEqual(["dead", 0]);
});

test("A dead letter whose payment was charged before takes a place again when it is retried", () => {
  const call = new OneCall({ ceiling: null }, "before");
  call.steps.fail(NOW, LEASE, "no ink");
  expect(call.steps.retryDeadLetter(NOW + 1, 1)).toBe("retried");
  expect(call.row).toMatchObject({ state: "ready", forgiven: 2, dead_reason: null });
  expect(call.row?.history).toHaveLength(2);
  expect(call.capacity.pending).toBe(1);
  expect(call.steps.dropDeadLetter(NOW + 2, 1)).toBe(false);
});

test("An authorization that ends charges a running job what it reported, and any other job nothing", () => {
  const running = new OneCall();
  running.steps.extend(NOW, LEASE, 5_000, undefined, { units: "400" });
  expect(running.row).toMatchObject({ visible_at: NOW + 5_000, charge_so_far: "400" });
  expect(running.steps.endAuthorization(NOW, 1)).toMatchObject({ charge: { amount: "400" } });
  expect([running.row?.state, running.effects.payment(1)?.state]).toEqual(["leased", "settling"]);
  expect(running.steps.endAuthorization(NOW, 1)).toEqual({ kind: "not_open" });

  const lost = new OneCall({ visible_at: NOW - 1 });
  expect(lost.steps.endAuthorization(NOW, 1)).toMatchObject({ kind: "dead_lettered" });
  expect(lost.row?.history).toMatchObject([{ reason: "lease expired", to: NOW - 1 }]);
  expect(lost.effects.payment(1)?.state).toBe("released");

  const whole = new OneCall({}, "after");
  expect(whole.steps.endAuthorization(NOW, 1)).toMatchObject({ kind: "dead_lettered" });
  expect(whole.row?.history).toMatchObject([{ reason: AUTHORIZATION_ENDED, to: NOW }]);
  expect(whole.effects.payment(1)?.state).toBe("released");
  expect(whole.steps.ack(NOW, LEASE)).toEqual({ outcome: "lease_lost" });
});
