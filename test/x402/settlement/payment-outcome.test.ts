import { expect, test } from "vitest";
import type { PaymentRecord, PurchaseNotes } from "../../../src/core/payment.ts";
import {
  outcomeOfKnown,
  PurchaseNameTaken,
  requirementsOf,
} from "../../../src/x402/settlement/payment-outcome.ts";
import { paymentIntent } from "../../store/store-fixtures.ts";

const known = {
  ...paymentIntent(1, { purchaseName: "order 1" }),
  ...{ state: "settled", callId: 7, settlement: "{}", createdAt: 0 },
} as PaymentRecord;
const another = { ...paymentIntent(2, { purchaseName: "order 1" }), key: known.key };
const ANOTHER_BODY = { bodyHash: "11".repeat(32) };

test("Another payment under the name of a purchase has its outcome, for the same job and body alone", () => {
  expect(outcomeOfKnown(known, another)).toMatchObject({ kind: "accepted", callId: 7 });
  expect(() => outcomeOfKnown(known, { ...another, ...ANOTHER_BODY })).toThrow(PurchaseNameTaken);
});

test("A payment that bought another body is a replay, whatever its name is", () => {
  for (const purchaseName of [undefined, "order 1", "order 2"]) {
    const refused = () => outcomeOfKnown(known, { ...known, ...ANOTHER_BODY, purchaseName });
    expect(refused).toThrow("This payment was used for another job, request or body: sign a new one.");
  }
});

test("A payment with other notes of parts bought something else, and the refusal names the headers", () => {
  const noted = (notes: PurchaseNotes | undefined): PaymentRecord => ({ ...known, notes });
  const none = noted({ "X-A": undefined, "X-B": undefined });
  const [one, other] = [noted({ "X-A": undefined, "X-B": "1" }), noted({ "X-A": undefined, "X-B": "2" })];
  for (const [kept, asked] of [
    [noted({ "X-B": "1" }), none],
    [noted(undefined), one],
    [one, other],
  ] as const) {
    const refused = () => outcomeOfKnown(kept, asked);
    expect(refused).toThrow(
      "This payment was used for another job, request, body, X-A or X-B: sign a new one.",
    );
  }
  expect(outcomeOfKnown(noted({ "X-B": "1" }), one).kind).toBe("accepted");
  expect(outcomeOfKnown(noted(undefined), none).kind).toBe("accepted");
});

test("A name says nothing about the purchase of another payer", () => {
  const key = { ...another.key, payer: `0x${"1".repeat(40)}` };
  expect(() => outcomeOfKnown(known, { ...another, key })).toThrow("This payment was used for another job");
});

const ACCEPTED = { scheme: "exact", network: "eip155:1", amount: "10" };
const payload = JSON.stringify({ x402Version: 2, accepted: ACCEPTED, payload: {} });

test("A payment was made for what its payload accepts, where the journal has no requirements", () => {
  expect(requirementsOf({ payload, requirements: undefined })).toEqual(ACCEPTED);
});

test("A payment was made for the requirements in the journal, whatever its payload accepts", () => {
  const requirements = JSON.stringify({ ...ACCEPTED, amount: "11" });
  expect(requirementsOf({ payload, requirements })).toEqual({ ...ACCEPTED, amount: "11" });
});
