import { describe, expect, test } from "vitest";
import type { RunnerReport } from "../../../src/delivery/subscription.ts";
import { untakenBy } from "../../../src/parts/operator/untaken-jobs.ts";
import { waitReasons } from "../../../src/parts/operator/wait-reasons.ts";
import type { CallDetails } from "../../../src/store/contract/operator-lists.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { paidCall, paymentIntent } from "../../store/store-fixtures.ts";

const call: CallDetails = {
  ...{ callId: 1, origin: "webhook", jobId: 7n, serviceId: 1n, state: "ready", attempts: 0, enqueuedAt: 0 },
  steps: [],
};
const runner: RunnerReport = {
  ...{ subscriber: "r", jobIds: [7n], inFlight: 1, maxInFlight: 1, connectedSince: 0, reserves: false },
};
const reasons = (
  details: Partial<CallDetails>,
  {
    runners = [runner],
    reserved = [],
    ...known
  }: Partial<Parameters<typeof waitReasons>[1]> & {
    readonly runners?: readonly RunnerReport[];
    readonly reserved?: readonly bigint[];
  } = {},
) =>
  waitReasons(
    { ...call, ...details },
    { payment: undefined, untaken: untakenBy(runners, reserved), ofParts: [], ...known },
  );

describe("The reasons why a JobCall waits", () => {
  test("A JobCall that a runner has, or that has ended, has none", () => {
    for (const state of ["leased", "done", "dead", "failed", "dropped"] as const)
      expect(reasons({ state }, { ofParts: ["The job is paused."], runners: [] })).toEqual([]);
  });

  test("A retry names its time, a job without a runner its job, and parts' reasons stand between", () => {
    const dueAt = Date.UTC(2026, 10, 30, 5, 0, 7);
    expect(
      reasons({ dueAt }, { runners: [{ ...runner, jobIds: [8n] }], ofParts: ["It is paused."] }),
    ).toEqual([
      "Its next attempt is due at 2026-11-30T05:00:07Z.",
      "It is paused.",
      "No runner that is connected here takes job 7.",
    ]);
  });

  test.each([
    ["no runner", [], [], true],
    ["a runner of all jobs", [{ ...runner, jobIds: [] }], [], false],
    ["a paused runner of all jobs", [{ ...runner, jobIds: [], maxInFlight: 0 }], [], true],
    ["a runner of another job", [{ ...runner, jobIds: [8n] }], [], true],
    ["a runner of all jobs, while the job is reserved", [{ ...runner, jobIds: [] }], [7n], true],
  ])(
    "With %s it is said that no runner takes the job only if that is so",
    (_, runners, reserved, isUntaken) => {
      expect(reasons({}, { runners, reserved })).toEqual([
        isUntaken
          ? "No runner that is connected here takes job 7."
          : "The runners that take its job have no room for another JobCall, or get earlier JobCalls first.",
      ]);
    },
  );

  test("A JobCall whose payment is not settled waits for it, and one in doubt for the operator", async () => {
    const { store, stop } = await openTestStore();
    const intent = paymentIntent(1);
    await store.beginPayment(intent, paidCall());
    const [payment] = (await store.listPayments({ limit: 1 })).items;
    await stop();
    if (payment === undefined) return expect.fail();
    const held = { state: "held" } as const;
    expect(reasons(held, { payment })).toEqual(["Its payment is not settled yet."]);
    const inDoubt = { ...payment, state: "unresolved" } as const;
    expect(reasons(held, { payment: inDoubt })).toEqual([
      `Its payment is in doubt: decide payment ${payment.callId}.`,
    ]);
  });
});
