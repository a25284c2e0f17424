import { expect, test } from "vitest";
import { type CallRow, type CallRows, LeaseSteps } from "../../../src/store/machine/leases.ts";
import { Capacity } from "../../../src/store/new-call.ts";
import { toPaymentRow } from "../../../src/store/payment-row.ts";
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
};

/** Steps on one row in memory. */
class OneCall implements CallRows {
  row: CallRow | undefined;
  readonly capacity = new Capacity(1, 10);
  readonly effects = new MemoryEffects();
  readonly steps = new LeaseSteps(this, this.capacity, this.effects);

  constructor(row: Partial<CallRow> = {}) {
    this.row = { ...LEASED, ...row };
    const payment = toPaymentRow(paymentIntent(1, { ceiling: "1001" }), 1, START_MS);
    this.effects.paymentRows.rows.set(1, payment);
  }

  find(): CallRow | undefined {
    return this.row;
  }

  change(row: CallRow): void {
    this.row = row;
  }

  extend(row: CallRow): void {
    this.row = row;
  }

  drop(): void {
    this.row = undefined;
  }
}

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

test("A dead letter leaves its place, releases its payment, and takes a place again when it is retried", () => {
  const call = new OneCall();
  const { buried } = call.steps.fail(NOW, LEASE, "no ink");
  expect(buried).toMatchObject({ callId: 1, reason: "no ink", deadAt: NOW, released: { amount: "0" } });
  expect(call.effects.payment(1)?.state).toBe("released");
  expect([call.row?.state, call.capacity.pending]).toEqual(["dead", 0]);
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
  expect(lost.steps.endAuthorization(NOW, 1)).toMatchObject({ kind: "buried" });
  expect(lost.row?.history).toMatchObject([{ reason: "lease expired", to: NOW - 1 }]);
  expect(lost.effects.payment(1)?.state).toBe("released");
});
