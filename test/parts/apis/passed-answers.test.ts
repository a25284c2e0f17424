import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { PassedAnswers } from "../../../src/parts/apis/passed-answers.ts";
import type { LiveAnswer } from "../../../src/x402/calls/live-answers.ts";

const CALL = 7;
const HEAD = { body: new Uint8Array(), contentType: "text/plain" };
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

test("A buyer who leaves before the answer begins, or during it, ends it, and one who stops waiting does not", () => {
  const answers = new PassedAnswers();
  let left = 0;
  const answer = answers.expect(CALL, () => void left++);
  buyer(answers).stop();
  expect(left).toBe(0);
  buyer(answers, AbortSignal.abort()).stop();
  expect(left).toBe(1);
  const { taken } = buyer(answers);
  answer.begin(HEAD);
  taken[0]?.bytes(AbortSignal.abort());
  expect(left).toBe(2);
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
