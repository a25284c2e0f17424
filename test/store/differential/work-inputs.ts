import type { JobLimit } from "../../../src/core/job-call.ts";
import { JOB_IDS } from "./intake-inputs.ts";
import type { MakersOf } from "./makers.ts";
import { callRef } from "./steps.ts";
import type { World } from "./world.ts";

const NO_BACKOFF = { baseMs: 0, maxMs: 0 };
const BACKOFFS = [NO_BACKOFF, { baseMs: 2_000, maxMs: 10_000 }];

/** The same in every claim that has limits. */
const LIMITS: readonly JobLimit[] = [
  { jobId: 7n, concurrency: 2 },
  { jobId: 30n, rate: { calls: 3, perMs: 60_000 } },
  { jobId: 31n, concurrency: 4, rate: { calls: 2, perMs: 1_000 } },
];

/** Inputs of claims, of operations on leases and on dead letters. */
export const WORK: MakersOf<
  | "claim"
  | "expireLeases"
  | "ack"
  | "retry"
  | "fail"
  | "extend"
  | "release"
  | "appendResult"
  | "jobsOf"
  | "nextDueMs"
  | "ceilings"
  | "withhold"
  | "retryDeadLetter"
  | "dropDeadLetter"
  | "endAuthorization"
  | "listEndingAuthorizations"
> = {
  claim(world) {
    const { choices } = world;
    return [
      {
        limit: choices.one([1, 3, 10]),
        jobIds: choices.one([[], [], [], JOB_IDS, [7n, 8n], [7n, 30n, 7n]]),
        exceptJobIds: choices.maybe(25, () => choices.one([[7n], [8n, 7n], JOB_IDS])),
        reserves: choices.percent(30),
        leaseMs: choices.one([3_000, 60_000, 60_000]),
        maxAttempts: maxAttempts(world),
        subscriber: choices.percent(10) ? world.text() : "runner",
        suspects: choices.maybe(60, () => choices.one([0, 1, 10])),
        limits: choices.one([[], [], LIMITS]),
      },
    ];
  },
  expireLeases: (world) => [maxAttempts(world)],
  ack: (world) => [lease(world), world.choices.maybe(60, () => result(world)), charge(world)],
  retry: (world) => [
    lease(world),
    {
      delayMs: world.choices.maybe(60, () => world.choices.one([0, 0, 5_000])),
      backoff: world.choices.one(BACKOFFS),
      maxAttempts: maxAttempts(world),
      reason: world.text(),
    },
  ],
  fail: (world) => [lease(world), world.text()],
  extend(world) {
    const { choices } = world;
    const progress = choices.maybe(50, () => ({ percent: choices.below(101), text: world.text() }));
    return [lease(world), choices.one([0, 5_000, 90_000]), progress, charge(world)];
  },
  release(world) {
    const { choices } = world;
    return [
      lease(world),
      {
        excused: choices.percent(30),
        suspect: choices.maybe(50, () => choices.percent(50)),
        reason: choices.maybe(30, () => world.text()),
        wasAlone: choices.maybe(50, () => choices.percent(50)),
        maxAttempts: maxAttempts(world),
        backoff: choices.one(BACKOFFS),
      },
    ];
  },
  appendResult: (world) => [
    lease(world),
    world.choices.below(3),
    Buffer.from(world.choices.one(["", "chunk", "\0\u00ff"])),
  ],
  jobsOf: (world) => [[world.call(), world.call(), callRef("0.0")]],
  nextDueMs: () => [],
  ceilings: (world) => [[world.call(), world.call(), callRef("0.0"), world.call()]],
  withhold: (world) => [world.call()],
  retryDeadLetter: (world) => [world.call(world.dead)],
  dropDeadLetter: (world) => [world.call(world.dead)],
  endAuthorization: (world) => [world.call(world.payments.map(({ call }) => call))],
  listEndingAuthorizations: ({ choices, now }) => [now / 1_000 + choices.one([0, 100, 1_000]), 1_000],
};

function maxAttempts({ choices }: World): number {
  return choices.one([1, 2, 3, 3]);
}

/** A lease that a claim gave out, maybe long ago; seldom one that none gave out. */
function lease(world: World): unknown {
  const { choices } = world;
  const known = choices.recent(world.leases);
  if (known === undefined || choices.percent(4)) return { callId: world.call(), leaseToken: "of nobody" };
  return known;
}

function result({ choices }: World) {
  const body = Buffer.from(choices.one(["", "result", "\0\u00ff"]));
  const storedBytes = choices.maybe(20, () => choices.one([5, 10]));
  const contentType = choices.one(["text/plain", "application/json"]);
  const status = choices.maybe(30, () => choices.one([200, 201, 303, 404, 500]));
  const headers = choices.maybe(20, () => [["etag", '"\u00ff"'] as const, ["link", "</a>"] as const]);
  return { body, contentType, status, headers, storedBytes };
}

function charge({ choices }: World) {
  return choices.maybe(50, () =>
    choices.one([
      ...[{ units: "0" }, { units: "1" }, { units: "999" }, { units: "99999999999999999999" }],
      ...[{ basisPoints: 0 }, { basisPoints: 1 }, { basisPoints: 5_000 }, { basisPoints: 10_000 }],
    ]),
  );
}
