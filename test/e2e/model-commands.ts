import fc from "fast-check";
import type { Fault } from "../helpers/fault.ts";

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
  | { readonly kind: "facilitator"; readonly path: "/verify" | "/settle"; readonly fault: FaultName }
  | { readonly kind: "rpc"; readonly fault: "cut" | "delay" | "500"; readonly times: number }
  | { readonly kind: "jobgate"; readonly signal: "SIGKILL" | "SIGTERM" }
  | { readonly kind: "runner" }
  | { readonly kind: "mining"; readonly on: boolean }
  | { readonly kind: "time"; readonly seconds: number }
  | { readonly kind: "pause"; readonly ms: number };

/** Chain event between jobgate's settlement request and the facilitator's transaction. */
export type Meanwhile = (typeof MEANWHILE)[number];
export const MEANWHILE = ["front-run", "cancel", "kill"] as const;

export type FaultName = keyof typeof FACILITATOR_FAULTS;

/** Fault of the facilitator, or of the connection to it, for one request. */
export const FACILITATOR_FAULTS = {
  "lost request": { kind: "cut" },
  "lost answer": { kind: "lose-answer" },
  "late request": { kind: "delay-request", ms: 300 },
  "late answer": { kind: "delay-answer", ms: 1_500 },
  "status 500": { kind: "answer", status: 500, body: "" },
  no: { kind: "answer", status: 200, body: { success: false, isValid: false, network: "eip155:84532" } },
  "a lie": {
    kind: "answer",
    status: 200,
    body: { isValid: true, success: true, transaction: `0x${"1e".repeat(32)}`, network: "eip155:84532" },
  },
} as const satisfies Readonly<Record<string, Fault>>;

const payment = fc.nat({ max: 11 });

/** @param lies whether the facilitator may say that it settled when it did not */
export function commands(options: { lies: boolean }): fc.Arbitrary<Command[]> {
  const names = (Object.keys(FACILITATOR_FAULTS) as FaultName[]).filter(
    (name) => options.lies || name !== "a lie",
  );
  const command = fc.oneof(
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
