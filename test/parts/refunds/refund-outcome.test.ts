import { type Hex, pad, toHex } from "viem";
import { describe, expect, test } from "vitest";
import { type RefundFacts, refundOutcome } from "../../../src/parts/refunds/refund-outcome.ts";

const TOKEN = "0x036cbd53842c5426634e7929541ec2318f3dcf7e";
const ACCOUNT = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
const PAYER = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

function transfer(over: { from?: string; to?: string; value?: bigint; address?: string } = {}) {
  const { from = ACCOUNT, to = PAYER, value = 5n, address = TOKEN } = over;
  return { address, topics: [TRANSFER, pad(from as Hex), pad(to as Hex)], data: pad(toHex(value)) };
}

function facts(over: Partial<RefundFacts> & { state?: RefundFacts["record"]["state"] } = {}): RefundFacts {
  const { state = "sent", ...rest } = over;
  const signed = { account: ACCOUNT, nonce: 0, raw: "0x02", hash: "0xh", earlierHashes: [], at: 0 };
  const isMined = state === "succeeded" || state === "reverted";
  return {
    refund: { asset: TOKEN, payer: PAYER, amount: "5" },
    record: {
      ...{ id: 1, network: "n", reference: "refund-1-1", to: TOKEN, data: "0x", queuedAt: 0, state },
      ...(state === "queued" || state === "dropped" ? { reason: "the node's words" } : { signed }),
      ...(isMined ? { mined: { hash: "0xh", blockNumber: "10" } } : {}),
    },
    receipt: { hash: "0xh", status: "success", blockNumber: 10n, blockHash: "0xb", logs: [transfer()] },
    head: 12n,
    confirmations: 3n,
    revert: undefined,
    hasFunds: true,
    ...rest,
  };
}

describe("the outcome of a refund", () => {
  test("It is refunded once its confirmed receipt has the token's transfer of the amount to the payer", () => {
    for (const state of ["sent", "succeeded"] as const) {
      expect(refundOutcome(facts({ state }))).toEqual({
        state: "sent",
        transaction: "0xh",
        blockNumber: "10",
        account: ACCOUNT,
      });
      expect(refundOutcome(facts({ state, head: 11n }))).toBeUndefined();
      expect(refundOutcome(facts({ state, receipt: undefined }))).toBeUndefined();
    }
  });

  test("A mined transaction without that transfer is a failure only once it is final", () => {
    const others = [
      transfer({ from: PAYER }),
      transfer({ to: ACCOUNT }),
      transfer({ value: 4n }),
      transfer({ address: ACCOUNT }),
    ];
    for (const log of others) {
      const receipt = {
        hash: "0xh",
        status: "success",
        blockNumber: 10n,
        blockHash: "0xb",
        logs: [log],
      } as const;
      expect(refundOutcome(facts({ receipt }))).toBeUndefined();
      expect(refundOutcome(facts({ receipt, state: "succeeded" }))).toMatchObject({
        state: "failed",
        transaction: "0xh",
      });
    }
  });

  test("A revert is a failure only once the journal has it as final", () => {
    const receipt = {
      hash: "0xh",
      status: "reverted",
      blockNumber: 10n,
      blockHash: "0xb",
      logs: [],
    } as const;
    expect(refundOutcome(facts({ receipt }))).toBeUndefined();
    expect(refundOutcome(facts({ state: "reverted", revert: "payer is blocked" }))).toEqual({
      state: "failed",
      transaction: "0xh",
      reason: "its transaction reverted: payer is blocked",
    });
  });

  test("A refund that was never signed waits for funds or for the node, and fails when the token refuses it", () => {
    const dropped = (over: Partial<RefundFacts>) => refundOutcome(facts({ state: "dropped", ...over }));
    expect(dropped({ hasFunds: false, revert: "exceeds balance" })).toEqual({ state: "unsigned" });
    expect(dropped({})).toMatchObject({
      state: "unsigned",
      reason: expect.stringContaining("the node's words"),
    });
    expect(dropped({ revert: "paused" })).toMatchObject({
      state: "failed",
      reason: expect.stringContaining("paused"),
    });
    expect(refundOutcome(facts({ state: "queued" }))).toBeUndefined();
  });
});
