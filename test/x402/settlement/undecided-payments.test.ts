import { expect, it, onTestFinished } from "vitest";
import type { UndecidedPayment } from "../../../src/store/contract/payment-journal.ts";
import { UndecidedPayments } from "../../../src/x402/settlement/undecided-payments.ts";
import { openInTempFolder } from "../../store/sqlite/open-in-temp-folder.ts";
import { paidCall, paymentIntent } from "../../store/store-fixtures.ts";

it("Every undecided payment is checked: the cursor continues, then starts again at the oldest", async () => {
  const { store, dispose } = await openInTempFolder({ maxPending: 10_000, clock: Date.now });
  onTestFinished(dispose);
  const begun = await Promise.all(
    Array.from({ length: 2_100 }, (_, number) => store.beginPayment(paymentIntent(number), paidCall())),
  );
  const oldestFirst = begun
    .map((outcome) => (outcome.kind === "begun" ? outcome.callId : 0))
    .sort((a, b) => a - b);
  const payments = new UndecidedPayments({ journal: store, state: "intent", clock: () => 0 });
  const next = () => payments.next();
  const turns = [await next(), await next()].map((turn) => turn.map(({ callId }) => callId));
  expect(turns.map(({ length }) => length)).toEqual([2_000, 100]);
  expect(turns.flat()).toEqual(oldestFirst);
  expect((await next())[0]?.callId).toBe(oldestFirst[0]);
});

it("A pass begins at the oldest, and the cursor knows when the last pass began", async () => {
  let now = 0;
  const page = Array.from({ length: 200 }, (_, callId) => ({ callId }) as UndecidedPayment);
  const rest = 150;
  let listed = 0;
  const listUndecided = async () => (++listed % 11 === 0 ? page.slice(0, rest) : page);
  const payments = new UndecidedPayments({ journal: { listUndecided }, state: "watched", clock: () => now });
  const waits: number[] = [];
  for (let turn = 0; turn < 6; turn++) {
    await payments.next();
    waits.push(payments.sinceLastPassMs);
    now += 60_000;
  }
  expect(waits).toEqual([Infinity, Infinity, 120_000, 180_000, 120_000, 180_000]);
});
