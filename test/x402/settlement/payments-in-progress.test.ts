import { expect, it } from "vitest";
import type { PaymentOutcome } from "../../../src/x402/settlement/payment-outcome.ts";
import { PaymentsInProgress } from "../../../src/x402/settlement/payments-in-progress.ts";
import { paymentIntent } from "../../store/store-fixtures.ts";

const PURCHASE = paymentIntent(1);
const ANOTHER_BODY = { ...PURCHASE, bodyHash: "11".repeat(32) };
const REFUSED: PaymentOutcome = { kind: "undecided" };
const BOUGHT: PaymentOutcome = {
  ...{ kind: "accepted", callId: 7, payment: PURCHASE.key, receipt: PURCHASE.receipt, takenAt: 0 },
};

it("A purchase has its own outcome while another body is in progress with the same payment", async () => {
  const payments = new PaymentsInProgress();
  const other = pending();
  const first = payments.join(ANOTHER_BODY, () => other.promise);
  expect(await payments.join(PURCHASE, async () => BOUGHT)).toEqual(BOUGHT);
  expect(payments.has(PURCHASE.fingerprint)).toBe(true);
  other.reject(new Error("the payment was used for another body"));
  await expect(first).rejects.toThrow("another body");
  expect(payments.has(PURCHASE.fingerprint)).toBe(false);
});

it("One purchase that is sent twice at once is made once", async () => {
  const payments = new PaymentsInProgress();
  const outcome = pending();
  const first = payments.join(PURCHASE, () => outcome.promise);
  const second = payments.join(PURCHASE, async () => BOUGHT);
  outcome.resolve(REFUSED);
  expect(await first).toEqual(REFUSED);
  expect(await second).toEqual({ ...REFUSED, replayed: true });
});

function pending() {
  let [resolve, reject] = [(_: PaymentOutcome) => {}, (_: Error) => {}];
  const promise = new Promise<PaymentOutcome>((...ends) => {
    [resolve, reject] = ends;
  });
  return { promise, resolve, reject };
}
