import { expect, test } from "vitest";
import { type DeliveryRow, type IntakeRows, IntakeSteps } from "../../../src/store/machine/intake.ts";
import { Capacity, type NewCall } from "../../../src/store/new-call.ts";
import { START_MS } from "../store-fixtures.ts";
import { MemoryEffects } from "./memory-effects.ts";

const NOW = START_MS;
const CALL = {
  origin: "webhook",
  jobId: "7",
  serviceId: "9",
  encoded: new Uint8Array(),
  headBytes: 0,
} as const;
const DELIVERY = {
  keys: [
    { key: "id", identifies: true },
    { key: "signature", identifies: true },
    { key: "latest", identifies: false },
  ],
  bodyHash: "hash",
  windowMs: 1000,
};

/** Steps on rows in memory. */
class Intake implements IntakeRows {
  readonly calls: NewCall[] = [];
  readonly deliveries = new Map<string, DeliveryRow>();
  readonly capacity = new Capacity(0, 2);
  readonly steps = new IntakeSteps(this, this.capacity, new MemoryEffects().rows);

  /** @param known call IDs and body hashes of remembered keys, which expire after `NOW` */
  constructor(known: Readonly<Record<string, readonly [callId: number, bodyHash: string]>> = {}) {
    for (const [key, [call_id, body_hash]] of Object.entries(known))
      this.deliveries.set(key, { key, call_id, body_hash, expires_at: NOW + 1 });
  }

  add(call: NewCall): number {
    return this.calls.push(call);
  }

  withhold(): void {}

  find(key: string): DeliveryRow | undefined {
    return this.deliveries.get(key);
  }

  remember(row: DeliveryRow): void {
    this.deliveries.set(row.key, row);
  }
}

test("JobCalls are accepted until the queue is full", () => {
  const intake = new Intake();
  expect([1, 2, 3].map(() => intake.steps.accept(NOW, CALL))).toEqual([
    { kind: "accepted", callId: 1 },
    { kind: "accepted", callId: 2 },
    { kind: "queue_full" },
  ]);
  expect(intake.capacity.pending).toBe(2);
  expect(intake.calls).toHaveLength(2);
});

test("A delivery is new when no key that identifies it is known", () => {
  expect(new Intake().steps.acceptOnce(NOW, CALL, DELIVERY)).toEqual({ kind: "accepted", callId: 1 });
  const other = new Intake({ latest: [5, "hash"] });
  expect(other.steps.acceptOnce(NOW, CALL, DELIVERY)).toEqual({ kind: "accepted", callId: 1 });
});

test("Any known key with the same body makes a duplicate of the call under the first one", () => {
  const known = new Intake({ signature: [7, "hash"] });
  expect(known.steps.acceptOnce(NOW, CALL, DELIVERY)).toEqual({ kind: "duplicate", callId: 7 });
  expect(known.calls).toEqual([]);
  const both = new Intake({ signature: [7, "hash"], id: [6, "hash"] });
  expect(both.steps.acceptOnce(NOW, CALL, DELIVERY)).toEqual({ kind: "duplicate", callId: 6 });
});

test("One known key with another body makes a conflict", () => {
  const known = new Intake({ id: [7, "hash"], signature: [7, "other"] });
  expect(known.steps.acceptOnce(NOW, CALL, DELIVERY)).toEqual({ kind: "conflict" });
});

test("A key is known until its window ends", () => {
  const intake = new Intake();
  intake.steps.acceptOnce(NOW, CALL, DELIVERY);
  expect(intake.deliveries.get("latest")).toEqual({
    ...{ key: "latest", body_hash: "hash", call_id: 1, expires_at: NOW + 1000 },
  });
  expect(intake.steps.acceptOnce(NOW + 999, CALL, DELIVERY)).toEqual({ kind: "duplicate", callId: 1 });
  expect(intake.steps.acceptOnce(NOW + 1000, CALL, DELIVERY)).toEqual({ kind: "accepted", callId: 2 });
  expect(intake.deliveries.get("id")).toMatchObject({ call_id: 2, expires_at: NOW + 2000 });
});

test("A full queue refuses a new delivery, does not remember it, and still recognises a repeat", () => {
  const intake = new Intake({ signature: [7, "hash"] });
  intake.capacity.adjust(2);
  expect(intake.steps.acceptOnce(NOW, CALL, DELIVERY)).toEqual({ kind: "duplicate", callId: 7 });
  const other = { ...DELIVERY, keys: [{ key: "other", identifies: true }] };
  expect(intake.steps.acceptOnce(NOW, CALL, other)).toEqual({ kind: "queue_full" });
  expect(intake.deliveries.has("other")).toBe(false);
});
