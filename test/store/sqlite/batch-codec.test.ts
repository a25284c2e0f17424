import fc from "fast-check";
import { expect, test } from "vitest";
import type { OperationOutcome } from "../../../src/store/group-commit.ts";
import {
  decodeBatch,
  decodeOutcomes,
  encodeBatch,
  encodeOutcomes,
} from "../../../src/store/sqlite/batch-codec.ts";
import { buffersOf, type FlatMessage } from "../../../src/store/sqlite/flat-message.ts";
import type { TimedOperation } from "../../../src/store/sqlite/transaction.ts";
import { anyCharacter } from "../../helpers/any-character.ts";
import { claimRequest, paymentIntent } from "../store-fixtures.ts";

const time = fc.integer({ min: 0, max: 2 ** 45 });
const callId = fc.maxSafeNat();
const bytes = fc.uint8Array({ maxLength: 50 });
const text = fc.string({ unit: anyCharacter, maxLength: 30 });

const newCall = fc.record({
  origin: fc.constantFrom("webhook", "x402"),
  jobId: text,
  serviceId: text,
  encoded: bytes,
  headBytes: fc.nat(),
});
const delivery = fc.record({
  keys: fc.array(fc.record({ key: text, identifies: fc.boolean() }), { maxLength: 3 }),
  bodyHash: text,
  windowMs: fc.nat(),
});
const lease = fc.record({ callId, leaseToken: text });
const charge = fc.constantFrom({ units: "7" }, { basisPoints: 0 });
const result = fc.option(
  fc.record(
    { body: bytes, contentType: text, status: fc.nat(), headers: fc.array(fc.tuple(text, text)) },
    { requiredKeys: ["body", "contentType"] },
  ),
  { nil: undefined },
);
const accepted = fc.oneof(
  fc.record({ kind: fc.constantFrom("accepted", "duplicate"), callId }),
  fc.record({ kind: fc.constantFrom("queue_full", "conflict") }),
);
const decidedCharge = fc.record({
  state: fc.constantFrom("settling", "released"),
  amount: text,
  payer: text,
});
const deadLettered = fc.record(
  { callId, reason: text, deadAt: time, released: decidedCharge },
  { requiredKeys: ["callId", "reason", "deadAt"] },
);
const claimed = fc.record({
  calls: fc.array(
    fc.record({
      callId,
      leaseToken: text,
      encoded: bytes,
      attempt: fc.nat(),
      forgiven: fc.nat(),
      enqueuedAt: time,
      leaseExpiresAt: time,
      suspect: fc.boolean(),
      deferred: fc.boolean(),
    }),
    { maxLength: 3 },
  ),
  deadLettered: fc.array(deadLettered, { maxLength: 2 }),
  suspectsLeft: fc.boolean(),
});

/** All fields that intents can have beside those of `paymentIntent`. */
const WHOLE = {
  ...{ purchaseName: "id", boundHeaders: "accept", onFailure: "refund", minCharge: "1", settlement: "{}" },
  ...{ notes: { "X-Note": "1", "X-None": undefined }, oneTimeNonces: [{ key: "k", expiresAt: 5 }] },
};

/** Arguments and results of operations, by name. */
const KINDS: Readonly<
  Record<string, readonly [input: fc.Arbitrary<unknown>, result: fc.Arbitrary<unknown>]>
> = {
  accept: [fc.tuple(newCall), accepted],
  acceptOnce: [fc.tuple(newCall, delivery), accepted],
  beginPayment: [
    fc.tuple(
      fc.constantFrom(paymentIntent(1), paymentIntent(2, WHOLE)),
      newCall,
      fc.constantFrom(undefined, { maxUndecided: 3 }),
    ),
    accepted,
  ],
  ack: [
    fc.oneof(fc.tuple(lease, result), fc.tuple(lease, result, charge)),
    fc.oneof(
      fc.record({ outcome: fc.constantFrom("done", "lease_lost", "not_found") }),
      fc.record({ outcome: fc.constant("done"), charge: decidedCharge }),
    ),
  ],
  claim: [fc.constant([claimRequest({ jobIds: [2n ** 64n - 1n] })]), claimed],
  extend: [fc.tuple(lease, fc.nat()), fc.record({ outcome: fc.constant("done"), leaseExpiresAt: time })],
  probe: [fc.constant([]), fc.constant(undefined)],
};
const step = fc.constantFrom(...Object.entries(KINDS)).chain(([name, [input, result]]) =>
  fc.record({
    operation: fc.record({ name: fc.constant(name), now: time, clockStepMs: fc.integer(), input }),
    outcome: fc.oneof(fc.record({ result }), fc.record({ error: text })),
  }),
);

/** Passes a message on as a port does. */
function post(message: FlatMessage): FlatMessage {
  return structuredClone(message, { transfer: buffersOf(message) });
}

test("Operations and their outcomes arrive at the other thread as they were sent", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
      const batch = steps.map(({ operation }) => operation) as unknown as TimedOperation[];
      const outcomes = steps.map(({ outcome }) => outcome) as OperationOutcome[];
      const received = decodeBatch(post(encodeBatch(batch)));
      expect(received).toEqual(batch);
      expect(decodeOutcomes(batch, post(encodeOutcomes(received, outcomes)))).toEqual(outcomes);
    }),
  );
});

test("Small views of large buffers are sent without the rest of their buffers", () => {
  const encoded = new Uint8Array(1_000_000).subarray(10, 15);
  const call = { origin: "webhook", jobId: "1", serviceId: "1", encoded, headBytes: 2 } as const;
  const message = encodeBatch([{ name: "accept", input: [call], now: 0 }]);
  expect(message.bytes.buffer.byteLength).toBe(5);
});
