import { expect, test } from "vitest";
import type { PaymentState } from "../../../../src/core/payment.ts";
import {
  claimable,
  merged,
  type SeenChannel,
  seen,
} from "../../../../src/parts/channels/store/chain-rules.ts";
import { refundDecision, refundEnded, refundOf } from "../../../../src/parts/channels/store/refund-rules.ts";
import type { ChannelRow, ChargeRow } from "../../../../src/parts/channels/store/row.ts";
import {
  canReturn,
  counted,
  decided,
  failed,
  madeFinal,
  type NewVoucher,
  refusalOf,
  revived,
  succeeded,
  taken,
} from "../../../../src/parts/channels/store/rules.ts";

const ID = `0x${"c".repeat(64)}`;
const MISMATCH = "invalid_batch_settlement_evm_cumulative_amount_mismatch";

const voucher = (cumulative: number, more: Partial<NewVoucher> = {}): NewVoucher => ({
  ...{
    channelId: ID,
    network: "eip155:1",
    asset: "0xa",
    symbol: "USDC",
    decimals: 6,
    config: "{}",
    signature: "0x1",
  },
  ...{ cumulative: BigInt(cumulative), amount: 10n, deposit: 0n, ...more },
});
const charge = (callId: number, more: Partial<ChargeRow> = {}): ChargeRow => ({
  ...{ call_id: callId, channel_id: ID, cumulative: String(10 * callId), amount: "10", deposit: "0" },
  ...{ used: "10", on_failure: "refund", charges_back: 1 },
  ...{ state: "open", is_counted: 0, created_at: 0, ...more },
});
const chain = (more: Partial<SeenChannel> = {}): SeenChannel => ({
  ...{ balance: "100", totalClaimed: "0", refundNonce: "0", withdrawAt: 0, block: 5, ...more },
});

/** Payments that are all in one state. */
const all = (state: PaymentState) => () => ({ state, block_number: state === "settled" ? "3" : null });

/** A channel with a deposit of 100 that counts, whose first call was sold for 10. */
function opened(): ChannelRow {
  const row = taken(undefined, voucher(10, { deposit: 100n }), 1, 1);
  return counted(row, [charge(1, { state: "undecided", deposit: "100" })], undefined, all("settled"), 2).row;
}

test("The first voucher comes with a deposit that covers it", () => {
  expect(refusalOf(undefined, voucher(10))?.error).toContain("channel_not_found");
  expect(refusalOf(undefined, voucher(10, { deposit: 9n }))?.error).toBe(MISMATCH);
  expect(refusalOf(undefined, voucher(20, { deposit: 100n }))?.error).toBe(MISMATCH);
  expect(refusalOf(undefined, voucher(10, { deposit: 10n }))).toBeUndefined();
});

test("Only the voucher that adds the price to the last one is taken, and the refusal says the sums", () => {
  const row = opened();
  expect(refusalOf(row, voucher(20))).toBeUndefined();
  for (const cumulative of [10, 19, 21, 30])
    expect(refusalOf(row, voucher(cumulative))).toEqual({
      error: MISMATCH,
      channel: { channelId: ID, base: "10", balance: "100", claimed: "0", signed: "10", signature: "0x1" },
    });
});

test("Charges never exceed the deposits that count", () => {
  const row = taken(undefined, voucher(10, { deposit: 100n }), 1, 1);
  expect(refusalOf(row, voucher(20))?.error).toBe(MISMATCH);
  expect(refusalOf(opened(), voucher(110, { amount: 100n }))?.error).toBe(MISMATCH);
  expect(refusalOf(opened(), voucher(100, { amount: 90n }))).toBeUndefined();
});

test("A channel takes no voucher while its payer withdraws, or once it is stopped", () => {
  const withdrawing = seen(opened(), chain({ withdrawAt: 9 }), 3);
  expect(withdrawing.status).toBe("withdrawing");
  expect(refusalOf(withdrawing, voucher(20))?.error).toContain("channel_busy");
  expect(seen(withdrawing, chain({ balance: "10" }), 4)).toMatchObject({ status: "open", balance: "10" });
  const short = seen(opened(), chain({ balance: "99" }), 3);
  expect(refusalOf(short, voucher(20))?.error).toContain("channel_busy");
  expect(seen(short, chain(), 4).status).toBe("open");
});

test("A claim that the store has not made stops the channel for good", () => {
  const stopped = seen(opened(), chain({ totalClaimed: "1" }), 3);
  expect(stopped.status).toBe("stopped");
  expect(seen(stopped, chain(), 4).status).toBe("stopped");
});

test("A deposit that was not made leaves nothing charged, and its voucher as unused", () => {
  const row = taken(undefined, voucher(10, { deposit: 100n }), 1, 1);
  const made = [charge(1, { state: "undecided", deposit: "100" })];
  const after = counted(row, made, undefined, all("failed"), 2);
  expect(after.row).toMatchObject({ charged: "0", balance: "0", base: "0", signed: "10", deposits: 0 });
  expect(after.charges).toMatchObject([{ state: "returned", is_counted: 1 }]);
  expect(refusalOf(after.row, voucher(20, { deposit: 100n }))?.error).toBe(MISMATCH);
  expect(refusalOf(after.row, voucher(10, { deposit: 100n }))).toBeUndefined();
});

test("A call that ends before its deposit was counted counts both", () => {
  const row = taken(undefined, voucher(10, { deposit: 100n }), 1, 1);
  const end = succeeded(charge(1, { state: "undecided", deposit: "100" })) as ChargeRow;
  expect(counted(row, [end], undefined, all("settled"), 2).row).toMatchObject({
    balance: "100",
    final: "10",
    deposits: 0,
  });
});

test("A call that succeeded is not charged back, and its charge is final once it is counted", () => {
  const row = taken(opened(), voucher(20), 2, 3);
  const end = succeeded(charge(2)) as ChargeRow;
  expect(failed(end)).toBeUndefined();
  expect(counted(row, [end], undefined, all("settled"), 4).row).toMatchObject({ final: "10", kept: "20" });
  for (const state of ["asked", "kept", "returned"] as const)
    expect(succeeded(charge(2, { state }))).toBeUndefined();
});

test("A failed call is charged back unless the seller keeps its price, and a charge is counted once", () => {
  const row = taken(opened(), voucher(20), 2, 3);
  for (const [on_failure, sums] of [
    ["refund", { charged: "10", final: "0" }],
    ["ask", { charged: "20", final: "0" }],
    ["keep", { charged: "20", final: "10" }],
  ] as const) {
    const end = failed(charge(2, { on_failure })) as ChargeRow;
    const first = counted(row, [end], undefined, all("settled"), 4);
    expect(first.row).toMatchObject(sums);
    expect(counted(first.row, first.charges, undefined, all("settled"), 5).row).toMatchObject(sums);
  }
});

test('A failed call with on_failure = "ask" stays charged until the operator decides, or the call runs again', () => {
  const asked = failed(charge(2, { on_failure: "ask" })) as ChargeRow;
  expect(asked.state).toBe("asked");
  expect([decided(asked, true), decided(asked, false), revived(asked)].map((one) => one?.state)).toEqual([
    ...["returned", "kept", "open"],
  ]);
  for (const state of ["open", "kept", "returned"] as const) {
    expect(decided(charge(2, { state }), true)).toBeUndefined();
    expect(revived(charge(2, { state }))).toBeUndefined();
  }
});

test("A call that fails before its deposit was counted counts the deposit while it waits for the operator", () => {
  const row = taken(undefined, voucher(10, { deposit: 100n }), 1, 1);
  const asked = failed(charge(1, { state: "undecided", deposit: "100", on_failure: "ask" })) as ChargeRow;
  const sums = counted(row, [asked], undefined, all("settled"), 2);
  expect(sums.row).toMatchObject({ balance: "100", deposits: 0, charged: "10", final: "0" });
  expect(counted(sums.row, sums.charges, undefined, all("settled"), 3).row).toMatchObject({ balance: "100" });
});

test("Before a withdrawal ends, pending charges are final, and what fails then is not charged back", () => {
  const row = taken(taken(opened(), voucher(20), 2, 3), voucher(30), 3, 4);
  const charges = [charge(1), charge(2, { state: "asked" }), charge(3, { state: "undecided", deposit: "5" })];
  expect(madeFinal(row, charges, 5)).toBeUndefined();
  const sums = madeFinal(seen(row, chain({ withdrawAt: 9 }), 5), charges, 6);
  expect(sums?.row).toMatchObject({ status: "withdrawing", final: "20", charged: "30", kept: "20" });
  expect(sums?.charges).toMatchObject([
    { call_id: 1, state: "kept", is_counted: 1 },
    { call_id: 2, state: "kept", is_counted: 1 },
  ]);
  for (const one of sums?.charges ?? []) {
    expect(failed(one)).toBeUndefined();
    expect(canReturn(one)).toBe(false);
  }
});

const asked = (refundNonce: string, amount?: string, more: Partial<SeenChannel> = {}) => ({
  amount,
  chain: chain({ refundNonce, ...more }),
});

test("A refund while the payer withdraws takes nothing that open calls need, nor what the withdrawal has taken", () => {
  const row = seen(taken(opened(), voucher(20), 2, 3), chain({ withdrawAt: 9 }), 4);
  const withdrawing = { withdrawAt: 9 };
  expect(refundDecision(row, asked("0", undefined, withdrawing), 5).kind).toBe("busy");
  const final = { ...row, final: row.charged, kept: "20" };
  expect(refundDecision(final, asked("0", undefined, withdrawing), 5)).toMatchObject({
    refund: { amount: "80", totalClaimed: "20" },
  });
  // The withdrawal has ended, and the store has not seen that.
  expect(refundDecision(row, asked("0", undefined, { balance: "30" }), 5)).toMatchObject({
    refund: { amount: "10" },
  });
});

/** Fails calls of a channel and counts them. @param next the highest charge that stands below the base */
function failing(row: ChannelRow, calls: readonly number[], next?: ChargeRow): ChannelRow {
  const ends = calls.map((callId) => failed(charge(callId)) as ChargeRow);
  return counted(row, ends, next, all("settled"), 9).row;
}

test("The base falls to the highest voucher whose call was not charged back, and what is charged back below is a credit", () => {
  const second = taken(opened(), voucher(20), 2, 3);
  const third = taken(second, voucher(30), 3, 4);
  expect(failing(third, [2])).toMatchObject({ base: "30", charged: "20", signed: "30" });
  expect(failing(failing(third, [2]), [3], charge(1))).toMatchObject({
    base: "10",
    charged: "10",
    signed: "30",
  });
  expect(failing(third, [3, 2], charge(1))).toMatchObject({ base: "10", base_call: 1 });
  expect(failing(third, [3], charge(2))).toMatchObject({ base: "20", base_call: 2, signed: "30" });
  // The charge below was charged back since it was read.
  expect(failing(third, [3], charge(2, { state: "returned" }))).toMatchObject({ base: "30", charged: "30" });
  const kept = counted(third, [succeeded(charge(1)) as ChargeRow], undefined, all("settled"), 5).row;
  expect(failing(kept, [2, 3])).toMatchObject({ base: "10", base_call: null, final: "10", charged: "10" });
});

test("A voucher whose call was charged back buys again, and its refusal shows the highest voucher that was signed", () => {
  const third = taken(taken(opened(), voucher(20), 2, 3), voucher(30, { signature: "0x3" }), 3, 4);
  const row = failing(third, [3], charge(2));
  expect(refusalOf(row, voucher(30))).toBeUndefined();
  expect(refusalOf(row, voucher(40))?.channel).toMatchObject({ base: "20", signed: "30", signature: "0x3" });
  const lower = failing(third, [2, 3], charge(1));
  expect(taken(lower, voucher(20, { signature: "0x2" }), 4, 5)).toMatchObject({
    ...{ base: "20", base_call: 4, charged: "20", signed: "30", signature: "0x3" },
  });
});

test("A refund leaves what is charged, goes on under its number, and ends by the chain alone", () => {
  const row = taken(opened(), voucher(20), 2, 3);
  const decision = refundDecision(row, asked("4"), 5);
  if (decision.kind !== "refunding") throw new Error(decision.kind);
  expect(decision.refund).toMatchObject({ nonce: "4", amount: "80" });
  expect(refusalOf(decision.row, voucher(30))?.error).toBe(MISMATCH);
  expect(refundDecision(decision.row, asked("5", "1"), 6)).toMatchObject({
    refund: decision.refund,
  });
  expect(refundEnded(decision.row, chain({ refundNonce: "4" }), undefined, 7)).toBeUndefined();
  const ended = refundEnded(decision.row, chain({ refundNonce: "5", balance: "20" }), "0xf", 7);
  expect(ended).toMatchObject({ status: "open", balance: "20" });
  expect(refundOf(ended as ChannelRow)).toMatchObject({ state: "done", transaction: "0xf" });
  expect(refundDecision(ended, asked("5"), 8).kind).toBe("nothing");
});

test("A view of the chain that was read while a refund ended gives no money back to the channel", () => {
  const row = taken(opened(), voucher(20), 2, 3);
  const decision = refundDecision(row, asked("4"), 5);
  if (decision.kind !== "refunding") throw new Error(decision.kind);
  const after = chain({ refundNonce: "5", balance: "20", block: 6 });
  const ended = refundEnded(decision.row, after, "0xf", 7) as ChannelRow;
  const view = merged(decision.row, { latest: chain({ refundNonce: "4" }), confirmed: after });
  expect(seen(ended, view, 8)).toMatchObject({ status: "open", balance: "20", balance_block: 6 });
});

test("A request that was paid is paid once, and a request for all is paid again once more is free", () => {
  const row = taken(opened(), voucher(20), 2, 3);
  const first = { nonce: "4", amount: "5", totalClaimed: "0", state: "done" } as const;
  expect(refundDecision(row, asked("5", "5"), 6, first)).toEqual({ kind: "paid", row, refund: first });
  expect(refundDecision(row, asked("5"), 6, first)).toMatchObject({ refund: { nonce: "5", amount: "80" } });
  const empty = { ...row, balance: "20" };
  expect(refundDecision(empty, asked("5"), 6, first).kind).toBe("paid");
  const stopped = { ...empty, status: "stopped" as const };
  expect(refundDecision(stopped, asked("5"), 6, first).kind).toBe("paid");
  // The store has not seen the end of the refund, but the chain has paid it.
  const sent = { ...first, state: "sending" } as const;
  expect(refundDecision(row, asked("5", "5"), 6, sent).kind).toBe("paid");
  expect(refundDecision(row, asked("4", "5"), 6, sent)).toMatchObject({
    refund: { nonce: "4", amount: "5" },
  });
});

test("No refund begins while a deposit is not decided", () => {
  const row = taken(undefined, voucher(10, { deposit: 100n }), 1, 1);
  expect(refundDecision(row, asked("0"), 2).kind).toBe("busy");
});

/** A channel whose first call was bought with a deposit of 100, which the payment's end does not tell yet. */
const undecided = () => taken(undefined, voucher(10, { deposit: 100n }), 1, 1);
const withDeposit = charge(1, { state: "undecided", deposit: "100" });
const madeIn = (block_number: string | null) => () => ({ state: "settled" as const, block_number });

test("A deposit that the chain's balance has already is not added again", () => {
  const row = seen(undecided(), chain({ balance: "100", block: 5 }), 2);
  expect(row).toMatchObject({ balance: "100", deposits: 1 });
  for (const block of ["4", "5"])
    expect(counted(row, [withDeposit], undefined, madeIn(block), 3).row).toMatchObject({
      ...{ balance: "100", deposits: 0 },
    });
  expect(counted(row, [withDeposit], undefined, madeIn("6"), 3).row).toMatchObject({ balance: "200" });
});

test("A deposit that another account has sent counts once the chain shows it, and an older view of the chain takes nothing back", () => {
  const more = seen(opened(), chain({ balance: "150", block: 7 }), 3);
  expect(more).toMatchObject({ balance: "150", status: "open" });
  const paidBack = { ...more, balance: "20", balance_block: 9 };
  expect(seen(paidBack, chain({ balance: "150", block: 8 }), 4)).toMatchObject({ balance: "20" });
});

test("A deposit that only the operator calls made counts once the chain's balance covers the charge", () => {
  const ends = madeIn(null);
  const before = counted(undecided(), [withDeposit], undefined, ends, 2);
  expect([before.row.deposits, before.charges]).toEqual([1, []]);
  const row = seen(before.row, chain({ balance: "100" }), 3);
  expect(counted(row, [withDeposit], undefined, ends, 4).row).toMatchObject({ balance: "100", deposits: 0 });
});

test("A withdrawal counts before it is confirmed, and a node that lags takes no deposit away", () => {
  const [confirmed, latest] = [chain({ balance: "50" }), chain({ balance: "100", withdrawAt: 9 })];
  expect(merged(opened(), { latest, confirmed })).toMatchObject({ balance: "100", withdrawAt: 9 });
  expect(merged(opened(), { latest: confirmed, confirmed })).toMatchObject({ balance: "50", withdrawAt: 0 });
  // It has ended once both blocks show what is left.
  const withdrawing = { ...opened(), withdraw_at: 9 };
  expect(merged(withdrawing, { latest: chain(), confirmed })).toMatchObject({ withdrawAt: 9 });
  expect(merged(withdrawing, { latest: confirmed, confirmed })).toMatchObject({ withdrawAt: 0 });
});

test("What a withdrawal leaves uncovered is lost once all calls have ended, and is due no more", () => {
  const row = { ...taken(opened(), voucher(20), 2, 3), final: "10", kept: "10" };
  const withdrawing = seen(row, chain({ withdrawAt: 9 }), 4);
  const ended = chain({ balance: "4" });
  expect(seen(withdrawing, ended, 5)).toMatchObject({ status: "withdrawing", lost: "0" });
  const lost = seen({ ...withdrawing, final: "20", kept: "20" }, ended, 5);
  expect(lost).toMatchObject({ status: "open", withdraw_at: null, lost: "16", balance: "4", due_since: 4 });
  expect(claimable(lost, { latest: ended, confirmed: ended })).toBe(4n);
  expect(seen({ ...lost, asked: "4" }, { ...ended, totalClaimed: "4" }, 6)).toMatchObject({
    due_since: null,
  });
  expect(seen(withdrawing, chain({ balance: "20" }), 5)).toMatchObject({ status: "open", lost: "0" });
});

test("A channel whose deposits are short for a day was withdrawn from, and what is not covered is lost", () => {
  const row = { ...opened(), final: "10", kept: "10" };
  const [short, day] = [chain({ balance: "0" }), 86_400_000];
  const stopped = seen(row, short, 5);
  expect(stopped).toMatchObject({ status: "stopped", lost: "0" });
  expect(seen(stopped, short, 4 + day)).toMatchObject({ status: "stopped", lost: "0" });
  expect(seen(stopped, short, 5 + day)).toMatchObject({
    status: "open",
    reason: null,
    lost: "10",
    balance: "0",
  });
});

test("A channel that a lagging node showed short before its payer withdraws is open once the withdrawal has ended", () => {
  const row = { ...opened(), final: "10", kept: "10" };
  const stopped = seen(row, chain({ balance: "0" }), 4);
  const announced = seen(stopped, chain({ balance: "0", withdrawAt: 9 }), 5);
  expect(announced).toMatchObject({ status: "stopped", withdraw_at: 9 });
  const withdrawing = seen(announced, chain({ withdrawAt: 9 }), 6);
  expect(withdrawing).toMatchObject({ status: "withdrawing", reason: null });
  expect(seen(withdrawing, chain({ balance: "0" }), 7)).toMatchObject({ status: "open", lost: "10" });
  const contradicted = seen(row, chain({ totalClaimed: "1" }), 4);
  expect(seen(contradicted, chain({ withdrawAt: 9 }), 5).status).toBe("stopped");
});

test("A claim of lost charges that comes late makes them claimed, and not lost", () => {
  const row = { ...opened(), final: "10", kept: "10", asked: "10", lost: "6", claimed: "4" };
  expect(seen(row, chain({ totalClaimed: "10" }), 5)).toMatchObject({ claimed: "10", lost: "0" });
});

test("A claim is covered by the deposits in a confirmed block, and while the payer withdraws by the deposits in the newest block", () => {
  const row = { ...opened(), final: "10" };
  const [latest, confirmed] = [chain(), chain({ balance: "4" })];
  expect(claimable(row, { latest, confirmed: chain() })).toBe(10n);
  expect(claimable(row, { latest, confirmed })).toBe(4n);
  expect(claimable({ ...row, status: "withdrawing" }, { latest, confirmed })).toBe(10n);
  expect(claimable(row, { latest: confirmed, confirmed: latest })).toBe(4n);
});
