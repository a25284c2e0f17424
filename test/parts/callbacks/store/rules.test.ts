import { expect, test } from "vitest";
import type { ChargeKind, PaymentState } from "../../../../src/core/payment.ts";
import { CALLBACK_URL } from "../../../../src/parts/callbacks/store/ledger.ts";
import type { SoldPayment } from "../../../../src/store/payment-row.ts";
import { toPaymentRow } from "../../../../src/store/payment-row.ts";
import { MemoryEffects } from "../../../store/machine/memory-effects.ts";
import { paymentIntent, START_MS } from "../../../store/store-fixtures.ts";

const NOW = START_MS + 1_000;
const CALL = {
  call_id: 1,
  origin: "x402",
  job_id: "7",
  service_id: "9",
  attempts: 1,
  order_key: null,
} as const;
const BUYERS = { amount: "1001", notes: { [CALLBACK_URL]: "https://buyer.test/x" } } as const;

/** Effects beside one payment of call 1. */
function beside(state: PaymentState, charge: ChargeKind): MemoryEffects {
  const effects = new MemoryEffects();
  const row = toPaymentRow(paymentIntent(1, { ...BUYERS, charge }), CALL.call_id, START_MS);
  effects.paymentRows.rows.set(CALL.call_id, { ...row, state });
  return effects;
}

test("The buyer is called back once the job ran, if its payment was settled before", () => {
  expect(beside("settled", "before").finish(CALL, null, NOW)).toEqual(["call.finished"]);
});

test("The buyer of a deferred job is called back only once its charge is certain", () => {
  const effects = beside("authorized", "used");
  expect(effects.finish(CALL, "400", NOW)).toEqual([]);
  const payment = (): SoldPayment => effects.payment(CALL.call_id) as SoldPayment;
  effects.decide(payment(), { kind: "leaveUnresolved", reason: "no answer" }, NOW);
  expect(effects.events()).toEqual([]);
  const paid = { settlement: "{}", blockNumber: undefined, amount: undefined };
  effects.decide(payment(), { kind: "settle", ...paid }, NOW);
  expect(effects.events()).toEqual(["call.finished"]);
});

test("The buyer of a deferred job that costs nothing is called back at its end", () => {
  expect(beside("authorized", "used").finish(CALL, "0", NOW)).toEqual(["call.finished"]);
});
