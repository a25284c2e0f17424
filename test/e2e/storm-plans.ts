import fc from "fast-check";
import { FAULT_POINTS } from "../../src/core/fault-points.ts";
import { LOST_SETTLE_ANSWERS, NO_VERDICTS, UNHEARD_SETTLE_REQUESTS } from "./facilitator-faults.ts";

/** One payment: what its client, the facilitator, the runner and others do with it. */
export type Plan = typeof plan extends fc.Arbitrary<infer Value> ? Value : never;

/** Somebody else's act between jobgate's settlement request and the facilitator's transaction. */
const MEANWHILE = ["front-run", "cancel", "divert", "empty the wallet"] as const;
export type Meanwhile = (typeof MEANWHILE)[number];

/** A success that the facilitator claims without settling: with a hash of its own, or of a transaction that exists. */
export const LIES = [
  "an invented transaction",
  "an outside transfer",
  "a settlement on another fork",
] as const;
export type Lie = (typeof LIES)[number];

const HONEST = "pass" as const;
const lost = fc.constantFrom(...Object.keys(LOST_SETTLE_ANSWERS));
const unheard = fc.constantFrom(...Object.keys(UNHEARD_SETTLE_REQUESTS));

const plan = fc.record({
  payer: fc.nat({ max: 1 }),
  /** Concurrent copies of the same request. */
  copies: fc.constantFrom(1, 1, 1, 2, 3),
  /** Lifetime of the authorization by the chain's clock. */
  validSecs: fc.integer({ min: 30, max: 90 }),
  usedBefore: oneIn(50),
  verifying: fc.oneof(
    { weight: 12, arbitrary: fc.constant(HONEST) },
    { weight: 1, arbitrary: fc.constantFrom(...Object.keys(NO_VERDICTS)) },
  ),
  settling: fc.oneof(
    { weight: 10, arbitrary: fc.constant(HONEST) },
    { weight: 4, arbitrary: lost },
    { weight: 1, arbitrary: unheard },
    { weight: 1, arbitrary: fc.constantFrom(...LIES) },
    { weight: 1, arbitrary: fc.constantFrom(...MEANWHILE) },
  ),
  /** The client closes its connection after so long. */
  hangUpMs: fc.oneof(
    { weight: 12, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.nat({ max: 500 }) },
  ),
  /** Number of times that the client asks again for the outcome of a payment that may have moved money. */
  resends: fc.nat({ max: 8 }),
  pauseMs: fc.integer({ min: 20, max: 600 }),
  /** The client goes on after its resends, until its payment must be decided. */
  goesOn: fc.boolean(),
  /** The runner's answer to the first delivery. */
  running: fc.constantFrom(
    ...Array.from({ length: 17 }, () => "ack" as const),
    "nack" as const,
    "late" as const,
  ),
  /** Another use that the client makes of the payment: with another body, or for another job. */
  misuse: fc.constantFrom(
    ...Array.from({ length: 18 }, () => "no" as const),
    "body" as const,
    "job" as const,
  ),
});

const event = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ kind: "kill" as const }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("crash" as const),
      // A remote facilitator settles in the storm.
      at: fc.constantFrom(
        ...FAULT_POINTS.filter((point) => point !== "before-forgetting"),
        ...["refunds/before-sending", "refunds/after-sending", "refunds/before-end"],
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("time" as const), secs: fc.integer({ min: 5, max: 60 }) }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: "outside transfer" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("stall" as const), ms: fc.integer({ min: 200, max: 3_000 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "runner" as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: "store crash" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("facilitator down" as const, "rpc down" as const),
      ms: fc.integer({ min: 50, max: 1_000 }),
    }),
  },
);

/** An event for the whole system, after so many more answers: a slow machine gets as far between two kills. */
const plannedEvent = fc.record({
  event,
  answers: fc.integer({ min: 40, max: 260 }),
  ms: fc.nat({ max: 100 }),
});
export type PlannedEvent = typeof plannedEvent extends fc.Arbitrary<infer Value> ? Value : never;
export type Event = PlannedEvent["event"];

/** Answer to one question to the RPC. */
export type RpcAnswer = typeof rpcAnswer extends fc.Arbitrary<infer Value> ? Value : never;

/**
 * One question in nine goes to the second node. More would not be a fault that passes: whoever is behind an address that
 * is mostly wrong cannot know the chain.
 */
const rpcAnswer = fc.oneof(
  { weight: 830, arbitrary: fc.constant("healthy" as const) },
  { weight: 80, arbitrary: fc.constant("stale node" as const) },
  { weight: 30, arbitrary: fc.constant("stale state" as const) },
  { weight: 50, arbitrary: fc.constantFrom(...(["cut", "lost answer", "500", "error", "garbage"] as const)) },
  { weight: 9, arbitrary: fc.constant("late" as const) },
  { weight: 1, arbitrary: fc.constant("too late" as const) },
);

/** Size below which a storm has its events at shorter intervals, so that it has some. */
const ALL_APART_PAYMENTS = 400;

/** All that happens in a storm. The seed decides it; what meets what depends on the machine. */
export function planStorm(seed: number, payments: number) {
  const draw = <Value>(arbitrary: fc.Arbitrary<Value>, count: number) =>
    fc.sample(fc.noBias(arbitrary), { seed, numRuns: count });
  return {
    plans: draw(plan, payments),
    /** One after the other, from the start again after the last. */
    events: draw(plannedEvent, 499).map((planned) => ({
      ...planned,
      answers: Math.ceil(planned.answers * Math.min(1, payments / ALL_APART_PAYMENTS)),
    })),
    /** Answers to successive questions, repeated from the start after the last. */
    rpcAnswers: draw(rpcAnswer, 9_973),
    /** The second node's own life: how far behind it starts, what its fork holds, how long until it starts anew. */
    nodeLives: draw(
      fc.record({
        lag: fc.nat({ max: 20 }),
        ownBlocks: fc.nat({ max: 2 }),
        aheadSecs: fc.nat({ max: 300 }),
        ms: fc.integer({ min: 200, max: 1_500 }),
      }),
      997,
    ),
  };
}

function oneIn(count: number): fc.Arbitrary<boolean> {
  return fc.nat({ max: count - 1 }).map((drawn) => drawn === 0);
}
