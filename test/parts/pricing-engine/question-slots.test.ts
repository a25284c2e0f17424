import { expect, test } from "vitest";
import { type Question, QuestionSlots } from "../../../src/parts/pricing-engine/question-slots.ts";

/** Questions whose answers the test gives, each as the name of its own. */
function startSlots() {
  const slots = new QuestionSlots();
  const asked: string[] = [];
  const answers = new Map<string, (isLate: boolean) => void>();
  const ask = (name: string, question: Question = { urgent: true }) =>
    slots.run(
      question,
      () => {
        asked.push(name);
        return new Promise<boolean>((resolve) => answers.set(name, resolve));
      },
      (isLate) => isLate,
    );
  const answer = async (name: string, { late = false } = {}) => {
    answers.get(name)?.(late);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { ask, asked, answer };
}

test("Four questions are in flight at most, and urgent ones go first", async () => {
  const { ask, asked, answer } = startSlots();
  const promoted: Question = { urgent: false };
  for (const name of ["a", "b", "c", "d"]) void ask(name);
  void ask("renewal", { urgent: false });
  void ask("promoted", promoted);
  void ask("urgent");
  await answer("none");
  expect(asked).toEqual(["a", "b", "c", "d"]);
  promoted.urgent = true;
  for (const name of ["a", "b", "c"]) await answer(name);
  expect(asked.slice(4)).toEqual(["promoted", "urgent", "renewal"]);
});

test("Late answers halve the questions in flight down to one, and timely ones let them grow again", async () => {
  const { ask, asked, answer } = startSlots();
  const names = Array.from({ length: 20 }, (_, i) => String(i));
  for (const name of names) void ask(name);
  let answered = 0;
  const inFlight = () => asked.length - answered;
  const next = async (late: boolean) => {
    await answer(asked[answered] ?? "", { late });
    answered += 1;
    return inFlight();
  };
  await answer("none");
  const late = [await next(true), await next(true), await next(true), await next(true)];
  expect(late.at(-1)).toBe(1);
  const timely: number[] = [];
  for (let i = 0; i < 11; i++) timely.push(await next(false));
  expect(timely.at(-1)).toBe(4);
});

test("A question that fails frees its slot", async () => {
  const slots = new QuestionSlots();
  const failing = () => Promise.reject(new Error("no proof"));
  for (let i = 0; i < 5; i++)
    await expect(slots.run({ urgent: true }, failing, () => false)).rejects.toThrow("no proof");
});
