import { expect, test } from "vitest";
import type { PaymentRecord } from "../../../src/core/payment.ts";
import { AskTimes } from "../../../src/x402/settlement/ask-times.ts";

/** Times of a replica whose clocks start at 0. */
function replica({ isShared = true } = {}) {
  let now = 0;
  const clock = () => now;
  const times = new AskTimes({ journal: { isShared }, clock, elapsed: clock });
  const mayAskAt = (ms: number, record: PaymentRecord) => {
    now = ms;
    return times.mayAskAgain(record);
  };
  return { times, mayAskAt };
}

const begun = { fingerprint: "one", createdAt: 0, validBefore: 60 } as PaymentRecord;

test("A payment that another replica began, or this one before a restart, may be settled again 5 s later", () => {
  const { mayAskAt } = replica();
  expect([mayAskAt(4_999, begun), mayAskAt(5_000, begun)]).toEqual([false, true]);
});

test("Without other replicas, a payment that was begun before a restart may be settled again at once", () => {
  expect(replica({ isShared: false }).mayAskAt(0, begun)).toBe(true);
});

test("A payment is settled again at most once in 5 s, and never with less than 6 s left", () => {
  const { times, mayAskAt } = replica();
  expect(mayAskAt(10_000, begun)).toBe(true);
  times.note(begun);
  expect([mayAskAt(14_999, begun), mayAskAt(15_000, begun)]).toEqual([false, true]);
  expect([mayAskAt(54_000, begun), mayAskAt(54_001, begun)]).toEqual([true, false]);
});
