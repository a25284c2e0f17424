import fc from "fast-check";
import { FAULT_NAMES, type FaultName } from "./model-faults.ts";
import { CHARGINGS, type Charging } from "./model-runner.ts";

/** One thing that happens. Indices name a payment of the run, counted from its first, wrapping around. */
export type Command =
  | {
      readonly kind: "pay";
      /** Concurrent copies of the same request. */
      readonly times: number;
      readonly wait: boolean;
      readonly job: 0 | 1;
      readonly fails: boolean;
      /** Fault in this payment's settlement. */
      readonly settling: "pass" | FaultName | Meanwhile;
    }
  | { readonly kind: "resend"; readonly payment: number; readonly as: "same" | "other body" | "other job" }
  | { readonly kind: "front-run" | "cancel"; readonly payment: number }
  | { readonly kind: "refund"; readonly payment: number; readonly as: "approve" | "decline" }
  | { readonly kind: "retry"; readonly payment: number; readonly fails: boolean }
  | {
      readonly kind: "use";
      /** Concurrent copies of the same request. */
      readonly times: number;
      readonly wait: boolean;
      readonly payer: 0 | 1;
      readonly charging: Charging;
      readonly fails: boolean;
      /** The authorization ends soon. */
      readonly isShort: boolean;
      readonly settling: "pass" | FaultName | MeanwhileMetered;
    }
  | { readonly kind: "use again"; readonly payment: number; readonly as: "same" | "other body" | "result" }
  | { readonly kind: "retry use"; readonly payment: number }
  | { readonly kind: "payer"; readonly payer: 0 | 1; readonly as: PayerDeed }
  | { readonly kind: "facilitator"; readonly path: "/verify" | "/settle"; readonly fault: FaultName }
  | { readonly kind: "rpc"; readonly fault: "cut" | "delay" | "500"; readonly times: number }
  | { readonly kind: "jobgate"; readonly signal: "SIGKILL" | "SIGTERM" }
  | { readonly kind: "runner" }
  | { readonly kind: "mining"; readonly on: boolean }
  | { readonly kind: "reorganisation" }
  | { readonly kind: "time"; readonly seconds: number }
  | { readonly kind: "pause"; readonly ms: number };

/** Event between jobgate's settlement request and the facilitator's transaction. */
type Meanwhile = (typeof MEANWHILE)[number];
const MEANWHILE = ["front-run", "cancel", "kill"] as const;

/** Deed of a payer metered. */
export type PayerDeed = (typeof PAYER_DEEDS)[number];
const PAYER_DEEDS = ["drain", "revoke", "restore"] as const;

/** Event between an ack and the settlement of its charge. */
type MeanwhileMetered = "cancel" | "kill" | PayerDeed;

const payment = fc.nat({ max: 11 });

/**
 * @param options `readsChain`: the facilitator may say that it settled when it did not, and jobs are sold metered;
 * `reorganises`: the chain loses its last block now and then
 */
export function commands(options: { readsChain: boolean; reorganises: boolean }): fc.Arbitrary<Command[]> {
  const { readsChain, reorganises } = options;
  const names = FAULT_NAMES.filter((name) => readsChain || name !== "a lie");
  const command = fc.oneof(
    ...(readsChain ? metered(names) : []),
    ...(reorganises
      ? [{ weight: 2, arbitrary: fc.record({ kind: fc.constant("reorganisation" as const) }) }]
      : []),
    {
      weight: 12,
      arbitrary: fc.record({
        kind: fc.constant("pay" as const),
        times: fc.integer({ min: 1, max: 3 }),
        wait: fc.boolean(),
        job: fc.constantFrom(0 as const, 1 as const),
        fails: fc.boolean(),
        settling: fc.constantFrom("pass" as const, "pass" as const, "pass" as const, ...names, ...MEANWHILE),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constant("resend" as const),
        payment,
        as: fc.constantFrom("same" as const, "same" as const, "other body" as const, "other job" as const),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constantFrom("front-run" as const, "cancel" as const), payment }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("refund" as const),
        payment,
        as: fc.constantFrom("approve" as const, "decline" as const),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant("retry" as const), payment, fails: fc.boolean() }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant("facilitator" as const),
        path: fc.constantFrom("/settle" as const, "/settle" as const, "/settle" as const, "/verify" as const),
        fault: fc.constantFrom(...names),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("rpc" as const),
        fault: fc.constantFrom("cut" as const, "delay" as const, "500" as const),
        times: fc.integer({ min: 1, max: 6 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("jobgate" as const),
        signal: fc.constantFrom("SIGKILL" as const, "SIGKILL" as const, "SIGTERM" as const),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("runner" as const) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("mining" as const), on: fc.boolean() }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("time" as const),
        seconds: fc.constantFrom(1, 100, 301),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant("pause" as const), ms: fc.integer({ min: 1, max: 300 }) }),
    },
  );
  return fc.array(command, { minLength: 20, maxLength: 35, size: "max" });
}

function metered(names: readonly FaultName[]) {
  const passes = ["pass", "pass", "pass"] as const;
  const payer = fc.constantFrom(0 as const, 1 as const);
  return [
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant("use" as const),
        times: fc.integer({ min: 1, max: 3 }),
        wait: fc.boolean(),
        payer,
        charging: fc.constantFrom(...CHARGINGS),
        fails: fc.nat({ max: 7 }).map((n) => n === 0),
        isShort: fc.boolean(),
        settling: fc.constantFrom(...passes, ...names, "cancel" as const, "kill" as const, ...PAYER_DEEDS),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant("use again" as const),
        payment,
        as: fc.constantFrom("same" as const, "other body" as const, "result" as const),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("retry use" as const), payment }) },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("payer" as const),
        payer,
        as: fc.constantFrom(...PAYER_DEEDS, "restore" as const),
      }),
    },
  ];
}
