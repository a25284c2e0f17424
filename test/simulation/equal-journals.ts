import { expect } from "vitest";
import { paidCall } from "../store/store-fixtures.ts";
import { type JournalWrites, ModelJournal } from "./journal.ts";
import { intentOf } from "./payments.ts";

type Write = readonly ["begin" | "settle" | "fail" | "leave", payment: 0 | 1];

const WRITES: readonly Write[] = [
  ...[["begin", 0] as const, ["settle", 0] as const, ["fail", 0] as const, ["leave", 0] as const],
  ...[["begin", 1] as const, ["settle", 1] as const, ["fail", 1] as const],
];
/** Makes every sequence of so many writes about two payments with one nonce, and expects a store to answer as the simulated journal. */
export async function expectEqualJournals(store: JournalWrites, length: number): Promise<void> {
  let run = 0;
  for (const writes of sequences(length)) {
    run++;
    const model = new ModelJournal(0);
    for (const [i, write] of writes.entries()) {
      const [expected, actual] = [await make(model, write, run), await make(store, write, run)];
      expect(actual, `${i + 1}. of ${writes.join("; ")}`).toBe(expected);
    }
  }
}

/** Sequences that begin with a payment: whatever comes before finds nothing. */
function* sequences(length: number): Generator<readonly Write[]> {
  if (length === 1) yield [["begin", 0]];
  else for (const before of sequences(length - 1)) for (const write of WRITES) yield [...before, write];
}

/** @returns the answer's kind, and the payment's state after it */
async function make(
  journal: JournalWrites | ModelJournal,
  [write, payment]: Write,
  run: number,
): Promise<string> {
  const intent = intentOf(payment, "nonce", run);
  const { key } = intent;
  const isModel = journal instanceof ModelJournal;
  const answers = {
    begin: () => (isModel ? journal.begin(intent) : journal.beginPayment(intent, paidCall())),
    settle: () => (isModel ? journal.steps.settlePayment(0, key, "{}") : journal.settlePayment(key, "{}")),
    fail: () =>
      isModel
        ? journal.steps.failPayment(0, key, "{}", "not paid")
        : journal.failPayment(key, "{}", "not paid"),
    leave: () =>
      isModel
        ? journal.steps.leavePaymentUnresolved(0, key, "no answer")
        : journal.leavePaymentUnresolved(key, "no answer"),
  };
  const answer = await answers[write]();
  const found = await (isModel ? journal.find(key) : journal.findPayment(key));
  return `${kindOf(answer)}, then ${found?.state}`;
}

function kindOf(answer: object | undefined): string {
  if (answer === undefined || !("kind" in answer)) return answer === undefined ? "unchanged" : "changed";
  return "changed" in answer ? `${answer.kind}, changed: ${answer.changed}` : String(answer.kind);
}
