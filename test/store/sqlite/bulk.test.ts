import { join } from "node:path";
import fc from "fast-check";
import { beforeEach, expect, test } from "vitest";
import type { Delivery } from "../../../src/store/contract/intake.ts";
import type { Claimed } from "../../../src/store/contract/work-queue.ts";
import type { OperationOutcome } from "../../../src/store/group-commit.ts";
import { type Connection, openConnection } from "../../../src/store/sqlite/connection.ts";
import { newSeenCommit } from "../../../src/store/sqlite/database-header.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import type { TimedOperation } from "../../../src/store/sqlite/transaction.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { writeEmptyDatabase } from "../../helpers/test-store.ts";
import { claimRequest, START_MS } from "../store-fixtures.ts";

const MAX_PENDING = 12;
const BATCHES = 5;
/** Time between two batches. */
const BATCH_MS = 3;

let folder: string;
beforeEach(async () => {
  folder = await testFolder();
});

let files = 0;
/** A database in a file of its own, and the leases that it gave out. */
class TestDatabase {
  readonly leases: { callId: number; leaseToken: string }[] = [];
  readonly #path: string;
  readonly #connection: Connection;

  constructor() {
    files += 1;
    this.#path = join(folder, `${files}.db`);
    writeEmptyDatabase(this.#path);
    const role = {
      role: "writer",
      path: this.#path,
      watch: [],
      seenCommit: newSeenCommit(),
      isNew: true,
      lastCallId: 0,
      maxPending: MAX_PENDING,
      now: Date.now(),
    } as const;
    this.#connection = openConnection(role, () => undefined);
  }

  /** @returns the outcomes, without the leases' random tokens */
  run(steps: readonly Step[]): unknown[] {
    const outcomes = this.#connection.run(steps.map((step) => this.#operation(step)));
    return outcomes.map((outcome) => this.#withoutTokens(outcome));
  }

  /** Returns the rows of all tables that the steps change. */
  close(): unknown[] {
    this.#connection.close();
    const database = openDriver(this.#path);
    const rows = [
      database.prepare("SELECT *, '' AS lease_token FROM job_calls").all([]),
      database.prepare("SELECT call_id, hex(encoded) FROM job_bodies").all([]),
      database.prepare("SELECT *, hex(body) AS body FROM results").all([]),
      // Expired ones go at any time.
      database.prepare("SELECT * FROM deliveries WHERE expires_at > ?").all([START_MS + BATCHES * BATCH_MS]),
    ];
    database.close();
    return rows;
  }

  #operation(step: Step): TimedOperation {
    const now = START_MS + step.at;
    switch (step.kind) {
      case "accept": {
        const { origin, jobId, encoded } = step;
        return {
          name: "accept",
          now,
          input: [{ origin, jobId, serviceId: "1", encoded, headBytes: encoded.byteLength }],
        };
      }
      case "acceptOnce": {
        const { keys, bodyHash, windowMs } = step;
        const ids = { origin: "webhook", jobId: "1", serviceId: "1" } as const;
        const call = { ...ids, encoded: new Uint8Array(1), headBytes: 0 };
        return { name: "acceptOnce", now, input: [call, { keys, bodyHash, windowMs }] };
      }
      case "ack": {
        const lease = this.leases[step.which] ?? { callId: 999, leaseToken: "unknown" };
        const result = { body: new Uint8Array([step.which]), contentType: "a/b" };
        return {
          name: "ack",
          now,
          input: [step.isWrong ? { ...lease, leaseToken: "wrong" } : lease, result],
        };
      }
      case "claim":
        return { name: "claim", now, input: [claimRequest({ limit: step.limit, jobIds: step.jobIds })] };
    }
  }

  #withoutTokens(outcome: OperationOutcome): unknown {
    const { calls } = ("result" in outcome ? (outcome.result ?? {}) : {}) as Partial<Claimed>;
    if (calls === undefined) return outcome;
    this.leases.push(...calls);
    return calls.map((call) => ({ ...call, encoded: [...call.encoded], leaseToken: "" }));
  }
}

type Step = { readonly at: number } & (
  | {
      readonly kind: "accept";
      readonly origin: "webhook" | "x402";
      readonly jobId: string;
      readonly encoded: Uint8Array;
    }
  | ({ readonly kind: "acceptOnce" } & Delivery)
  | { readonly kind: "ack"; readonly which: number; readonly isWrong: boolean }
  | { readonly kind: "claim"; readonly limit: number; readonly jobIds: readonly bigint[] }
);

const at = fc.nat({ max: 5 });
const delivery: fc.Arbitrary<Step> = fc.record({
  at,
  kind: fc.constant("acceptOnce"),
  keys: fc.array(fc.record({ key: fc.constantFrom(..."abcdefgh"), identifies: fc.boolean() }), {
    minLength: 1,
    maxLength: 2,
  }),
  bodyHash: fc.constantFrom("1", "2"),
  windowMs: fc.constantFrom(BATCH_MS, 2 * BATCH_MS, 100),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    at,
    kind: fc.constant("accept"),
    origin: fc.constantFrom("webhook", "x402"),
    jobId: fc.constantFrom("1", "2"),
    // One with a large body is inserted alone.
    encoded: fc.oneof(fc.uint8Array({ maxLength: 5 }), fc.constant(Buffer.alloc(10_000))),
  }),
  delivery,
  fc.record({ at, kind: fc.constant("ack"), which: fc.nat({ max: 8 }), isWrong: fc.boolean() }),
  fc.record({
    at,
    kind: fc.constant("claim"),
    limit: fc.nat({ max: 4 }),
    jobIds: fc.constantFrom([], [2n], [2n, 1n, 2n]),
  }),
);
const STAGES = [["ack"], ["accept", "acceptOnce"], ["claim"]];

function expectSameAsOneByOne(batches: readonly Step[][]): void {
  const inBulk = new TestDatabase();
  const oneByOne = new TestDatabase();
  for (const [index, steps] of batches.entries()) {
    // A window ends for good only if time does not go back.
    const batch = steps.map((each) =>
      each.kind === "acceptOnce" ? { ...each, at: index * BATCH_MS } : each,
    );
    const staged = STAGES.flatMap((stage) => batch.filter(({ kind }) => stage.includes(kind)));
    const single = new Map(staged.map((each) => [each, oneByOne.run([each])[0]]));
    expect(inBulk.run(batch)).toEqual(batch.map((each) => single.get(each)));
  }
  expect(inBulk.close()).toEqual(oneByOne.close());
}

test("A batch has the outcomes and rows of its operations one by one: acks, then accepts, then claims", () => {
  const batches = fc.array(fc.array(step, { maxLength: 15 }), { maxLength: BATCHES });
  fc.assert(fc.property(batches, expectSameAsOneByOne), { numRuns: 10 });
});

test("Deliveries that repeat each other have the same outcomes together as one by one", () => {
  const batches = fc.array(fc.array(delivery, { minLength: 3, maxLength: 8 }), {
    minLength: 2,
    maxLength: BATCHES,
  });
  fc.assert(fc.property(batches, expectSameAsOneByOne), { numRuns: 10 });
});

test("An operation that the database rejects is refused alone among many of its kind", () => {
  const connection = openConnection(
    {
      role: "writer",
      path: join(folder, "a.db"),
      watch: [],
      seenCommit: newSeenCommit(),
      isNew: true,
      lastCallId: 0,
      maxPending: 100,
      now: Date.now(),
    },
    () => undefined,
  );
  const accept = (jobId: string): TimedOperation => ({
    name: "accept",
    now: START_MS,
    input: [{ origin: "webhook", jobId, serviceId: "1", encoded: new Uint8Array(3), headBytes: 0 }],
  });
  try {
    const jobs = ["1", "1", "1", null as unknown as string, "1", "1"];
    const accepted = (callId: number) => ({ result: { kind: "accepted", callId } });
    expect(connection.run(jobs.map(accept))).toEqual([
      accepted(1),
      accepted(2),
      accepted(3),
      { error: expect.stringContaining("NOT NULL") },
      accepted(4),
      accepted(5),
    ]);
    expect(connection.pending).toBe(5);
  } finally {
    connection.close();
  }
});
