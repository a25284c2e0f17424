import { buffer } from "node:stream/consumers";
import { beforeEach, describe, expect, it, test, vi } from "vitest";
import { PassedAnswers } from "../../../src/parts/apis/passed-answers.ts";
import type { LiveAnswer } from "../../../src/x402/calls/live-answers.ts";

const CALL = 7;
const HEAD = { body: new Uint8Array(), contentType: "text/plain" };
/** Time in which a buyer who left would have come back. */
const MOMENT_MS = 5_000;
const OPEN = new AbortController().signal;

/** Waits for the answer of the call as a buyer. */
function buyer(answers: PassedAnswers, closed = OPEN) {
  const taken: LiveAnswer[] = [];
  const stop = answers.onBegun(CALL, closed, (answer) => taken.push(answer));
  return { taken, stop };
}

test.each(["before", "after"])("A buyer who comes %s the answer begins gets all of it", async (when) => {
  const answers = new PassedAnswers();
  const early = when === "before" ? buyer(answers) : undefined;
  const answer = answers.expect(CALL, () => undefined);
  answer.begin(HEAD);
  await answer.write(Buffer.from("a"));
  const { taken } = early ?? buyer(answers);
  const bytes = taken[0]?.bytes(OPEN);
  await answer.write(Buffer.from("b"));
  answer.end(true);
  expect(bytes && (await buffer(bytes))).toEqual(Buffer.from("ab"));
});

test("An answer is given to one buyer", () => {
  const answers = new PassedAnswers();
  const answer = answers.expect(CALL, () => undefined);
  answer.begin(HEAD);
  expect([buyer(answers), buyer(answers)].map(({ taken }) => taken.length)).toEqual([1, 0]);
});

test("An answer whose buyer does not come is read on, and no longer kept for a buyer above 1 MiB", async () => {
  const answers = new PassedAnswers();
  const answer = answers.expect(CALL, () => undefined);
  answer.begin(HEAD);
  for (let mebibytes = 0; mebibytes < 3; mebibytes++) await answer.write(Buffer.alloc(1_048_576));
  expect(buyer(answers).taken).toEqual([]);
});

describe("A call whose buyer leaves", () => {
  /** Expects an answer, and counts how often its buyer has left it. */
  function expected() {
    const answers = new PassedAnswers();
    const left = vi.fn();
    return { answers, left, answer: answers.expect(CALL, left) };
  }

  beforeEach(() => {
    vi.useFakeTimers();
    return () => vi.useRealTimers();
  });

  it("ends once no request is left for a moment", () => {
    const { answers, answer, left } = expected();
    const { taken } = buyer(answers);
    answer.begin(HEAD);
    const first = new AbortController();
    taken[0]?.bytes(first.signal);
    const second = new AbortController();
    const resend = buyer(answers, second.signal);
    first.abort();
    vi.advanceTimersByTime(MOMENT_MS);
    expect(left).not.toHaveBeenCalled();
    second.abort();
    resend.stop();
    const third = new AbortController();
    const again = buyer(answers, third.signal);
    vi.advanceTimersByTime(MOMENT_MS);
    expect(left).not.toHaveBeenCalled();
    third.abort();
    again.stop();
    vi.advanceTimersByTime(MOMENT_MS);
    expect(left).toHaveBeenCalledOnce();
  });

  it("goes on until its answer begins, for which the buyer may come back", () => {
    const { answers, answer, left } = expected();
    const leaving = new AbortController();
    const { stop } = buyer(answers, leaving.signal);
    leaving.abort();
    stop();
    vi.advanceTimersByTime(MOMENT_MS);
    expect(left).not.toHaveBeenCalled();
    answer.begin(HEAD);
    vi.advanceTimersByTime(MOMENT_MS);
    expect(left).toHaveBeenCalledOnce();
  });

  it("goes on if the buyer only stops waiting, left before the call was made, or waits for the whole answer", () => {
    const { answers, answer, left } = expected();
    const early = buyer(answers, AbortSignal.abort());
    answer.begin(HEAD);
    early.stop();
    buyer(answers).stop();
    const whole = answers.onBegun(CALL, OPEN);
    const leaving = new AbortController();
    const { stop } = buyer(answers, leaving.signal);
    leaving.abort();
    stop();
    whole();
    vi.advanceTimersByTime(MOMENT_MS);
    expect(left).not.toHaveBeenCalled();
  });
});

test("The next request gets an answer whose first one left before it began", () => {
  const answers = new PassedAnswers();
  const answer = answers.expect(CALL, () => undefined);
  const leaving = new AbortController();
  const first = buyer(answers, leaving.signal);
  const second = buyer(answers);
  leaving.abort();
  first.stop();
  answer.begin(HEAD);
  expect([first, second].map(({ taken }) => taken.length)).toEqual([0, 1]);
});

test("Nothing is kept of calls that have ended", () => {
  const answers = new PassedAnswers();
  buyer(answers).stop();
  answers.expect(CALL, () => undefined).end(true);
  const other = answers.expect(CALL, () => undefined);
  const { taken } = buyer(answers);
  other.begin(HEAD);
  expect(taken).toHaveLength(1);
});
