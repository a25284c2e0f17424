import { encodeAbiParameters, encodeEventTopics, type Log } from "viem";
import { describe, expect, it } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { TOKEN_EVENTS } from "../../../src/x402/settlement/nonce-use.ts";
import { decidePayment, matchTransfer } from "../../../src/x402/settlement/payment-decision.ts";

const address = (digit: string) => `0x${digit.repeat(40)}` as const;
const nonce = (digit: string) => `0x${digit.repeat(64)}` as const;
const payer = address("a");
const payTo = address("b");
const token = address("c");

const intent = {
  key: { network: "eip155:1", asset: token, payer, nonce: nonce("1") },
  payTo,
  amount: "100",
} as PaymentIntent;

const log = (topics: unknown, data: `0x${string}` = "0x", from: `0x${string}` = token): Log =>
  ({ address: from, topics, data }) as unknown as Log;

function used(digit: string, { by = payer, from = token } = {}): Log {
  const args = { authorizer: by, nonce: nonce(digit) };
  return log(encodeEventTopics({ abi: TOKEN_EVENTS, eventName: "AuthorizationUsed", args }), "0x", from);
}

function transfer({ from = payer, to = payTo, value = 100n, of = token } = {}): Log {
  const topics = encodeEventTopics({ abi: TOKEN_EVENTS, eventName: "Transfer", args: { from, to } });
  return log(topics, encodeAbiParameters([{ type: "uint256" }], [value]), of);
}

describe("The decision about a payment", () => {
  const logs = [used("1"), transfer()];
  const transaction = nonce("f");

  it.each([
    ["unused and not expired", { nonce: "unused", expired: false }, "open"],
    ["unused and expired", { nonce: "unused", expired: true }, "not_paid"],
    [
      "used, without its event yet",
      { nonce: "used_unexplained", expired: false, problem: "no logs" },
      "open",
    ],
    [
      "used, without its event for good",
      { nonce: "used_unexplained", expired: true, problem: "no logs" },
      "unknown",
    ],
    ["cancelled in an unconfirmed block", { nonce: "cancelled", confirmed: false }, "open"],
    ["cancelled in a confirmed block", { nonce: "cancelled", confirmed: true }, "not_paid"],
    ["used in an unconfirmed block", { nonce: "used", confirmed: false, transaction, logs }, "open"],
    [
      "used in a transaction that is gone",
      { nonce: "used", confirmed: true, transaction, logs: undefined },
      "open",
    ],
    ["used with the transfer", { nonce: "used", confirmed: true, transaction, logs }, "paid"],
    [
      "used without the transfer",
      { nonce: "used", confirmed: true, transaction, logs: [used("1")] },
      "not_paid",
    ],
    [
      "used among others, with one transfer",
      { nonce: "used", confirmed: true, transaction, logs: [transfer(), used("2"), used("1")] },
      "unknown",
    ],
  ] as const)("A nonce that is %s", (_what, facts, kind) => {
    expect(decidePayment(facts, intent)).toMatchObject({ kind });
  });
});

describe("A transaction that used one authorization of the payer", () => {
  it.each([
    ["the transfer after its use", [used("1"), transfer()]],
    ["the transfer before its use, as some tokens log it", [transfer(), used("1")]],
    [
      "other logs around it",
      [transfer({ value: 1n }), used("1"), transfer(), transfer({ of: address("d") })],
    ],
    [
      "an authorization of someone else in the same transaction",
      [used("1"), transfer(), used("2", { by: address("e") })],
    ],
  ])("matches with %s", (_what, logs) => {
    expect(matchTransfer(logs, intent)).toBe("matched");
  });

  it.each([
    ["no transfer", [used("1")]],
    ["a unit short", [used("1"), transfer({ value: 99n })]],
    ["a unit over", [used("1"), transfer({ value: 101n })]],
    ["another recipient", [used("1"), transfer({ to: address("e") })]],
    ["another payer", [used("1"), transfer({ from: address("e") })]],
    ["the amount in two parts", [used("1"), transfer({ value: 60n }), transfer({ value: 40n })]],
    ["the transfer of another token", [used("1"), transfer({ of: address("d") })]],
  ])("does not match with %s", (_what, logs) => {
    expect(matchTransfer(logs, intent)).toBe("none");
  });
});

describe("A transaction that used several authorizations of the payer", () => {
  it("Counts one transfer only for the authorization whose use it follows", () => {
    const logs = [used("1"), transfer({ to: address("e") }), used("2"), transfer()];
    const second = { ...intent, key: { ...intent.key, nonce: nonce("2") } };
    expect([matchTransfer(logs, intent), matchTransfer(logs, second)]).toEqual(["none", "matched"]);
  });

  it("Counts two transfers for two payments", () => {
    const logs = [used("1"), transfer(), used("2"), transfer()];
    const second = { ...intent, key: { ...intent.key, nonce: nonce("2") } };
    expect([matchTransfer(logs, intent), matchTransfer(logs, second)]).toEqual(["matched", "matched"]);
  });

  it("Is ambiguous when the logs do not show which transfer belongs to which authorization", () => {
    const logs = [used("2"), used("1"), used("3"), transfer()];
    expect(matchTransfer(logs, intent)).toBe("ambiguous");
    const last = [transfer(), used("2"), used("1")];
    expect(matchTransfer(last, intent)).toBe("ambiguous");
  });
});
