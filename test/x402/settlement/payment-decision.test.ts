import { expect, it } from "vitest";
import { decidePayment, type NonceFacts } from "../../../src/x402/settlement/payment-decision.ts";

const transaction = `0x${"f".repeat(64)}`;

it.each<[string, NonceFacts, string]>([
  ["unused and not expired", { nonce: "unused", expired: false }, "open"],
  ["unused and expired", { nonce: "unused", expired: true }, "not_paid"],
  ["used, without its event yet", { nonce: "used_unexplained", expired: false, problem: "no logs" }, "open"],
  [
    "used, without its event for good",
    { nonce: "used_unexplained", expired: true, problem: "no logs" },
    "unknown",
  ],
  ...(
    [
      ["with the transfer", { kind: "paid", transaction }, "paid"],
      ["by a cancellation", { kind: "cancelled" }, "not_paid"],
      ["without the transfer", { kind: "used_otherwise" }, "not_paid"],
      ["among others, with one transfer", { kind: "ambiguous" }, "unknown"],
      ["in a transaction that is gone", { kind: "unread", transaction }, "open"],
    ] as const
  ).flatMap(([how, outcome, kind]): [string, NonceFacts, string][] => [
    [`used ${how}`, { nonce: "used", confirmed: true, outcome }, kind],
    [`used ${how}, in an unconfirmed block`, { nonce: "used", confirmed: false, outcome }, "open"],
  ]),
])("The decision about a nonce that is %s", (_what, facts, kind) => {
  const decision = decidePayment(facts);
  expect(decision).toMatchObject({ kind });
  expect("isUnused" in decision).toBe(kind === "open" && facts.nonce === "unused");
});
