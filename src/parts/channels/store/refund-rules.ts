import type { ChannelState, SeenChannel } from "./chain-rules.ts";
import type { ChannelRow, ChannelStatus } from "./row.ts";
import { claimGoal, max, min, standing, withDue } from "./rules.ts";

/** Last refund that a channel's payer requested. Amounts are token units. */
export interface ChannelRefund {
  /** Number of the refund on the chain. */
  readonly nonce: string;
  readonly amount: string;
  /** Sum that is claimed with the refund. */
  readonly totalClaimed: string;
  readonly state: "sending" | "done";
  readonly transaction?: string;
}

/** A request for a refund. */
export interface AskedRefund {
  /** Amount in token units; undefined for everything that is not charged. */
  readonly amount: string | undefined;
  /** Number of the next refund in a confirmed block, and the balance and the withdrawal in the newest block. */
  readonly chain: Pick<ChannelState, "refundNonce" | "balance" | "withdrawAt">;
}

/** Result of a request for a refund. */
export type RefundDecision =
  | { readonly kind: "refunding"; readonly row: ChannelRow; readonly refund: ChannelRefund }
  | { readonly kind: "busy" | "nothing" };

/** Decides about a payer's request for a refund: all that is not charged, or a part of it. */
export function refundDecision(
  row: ChannelRow | undefined,
  { amount: wanted, chain }: AskedRefund,
  now: number,
): RefundDecision {
  if (row === undefined) return { kind: "nothing" };
  const under = refundOf(row);
  if (row.status === "refunding" && under !== undefined) return { kind: "refunding", row, refund: under };
  if (row.deposits > 0 || (row.status !== "open" && row.status !== "withdrawing")) return { kind: "busy" };
  // The payer may end the withdrawal before the refund is sent. Then only the sum that the refund claims is safe.
  if (chain.withdrawAt > 0 && row.final !== row.charged) return { kind: "busy" };
  const left = min(BigInt(row.balance), BigInt(chain.balance)) - standing(row);
  const amount = wanted === undefined ? left : min(left, BigInt(wanted));
  if (amount <= 0n) return { kind: "nothing" };
  const totalClaimed = String(max(claimGoal(row), BigInt(row.claimed)));
  const refund = {
    nonce: chain.refundNonce,
    amount: String(amount),
    totalClaimed,
    state: "sending",
  } as const;
  const status: ChannelStatus = "refunding";
  const asking = String(max(BigInt(row.asked), BigInt(totalClaimed)));
  return {
    kind: "refunding",
    refund,
    row: { ...row, status, asked: asking, refund: JSON.stringify(refund), updated_at: now },
  };
}

/**
 * Ends a refund once the chain's number of refunds shows that it was paid.
 * @param transaction hash of the transaction that paid the refund, if it is known
 * @returns undefined while the refund can still be paid, or if none is being paid
 */
export function refundEnded(
  row: ChannelRow | undefined,
  chain: SeenChannel,
  transaction: string | undefined,
  now: number,
): ChannelRow | undefined {
  const refund = row && refundOf(row);
  if (row?.status !== "refunding" || refund?.state !== "sending") return undefined;
  // The refund can still be paid, because anyone who has the signatures can send its transaction.
  if (BigInt(chain.refundNonce) <= BigInt(refund.nonce)) return undefined;
  const claimed = String(max(BigInt(row.claimed), BigInt(chain.totalClaimed)));
  const next = withDue(
    {
      ...{ ...row, status: "open" as const, claimed, balance: chain.balance, balance_block: chain.block },
      withdraw_at: null,
      ...{ refund: JSON.stringify({ ...refund, state: "done", transaction }), updated_at: now },
    },
    now,
  );
  return chain.withdrawAt > 0 ? { ...next, status: "withdrawing", withdraw_at: chain.withdrawAt } : next;
}

export function refundOf({ refund }: Pick<ChannelRow, "refund">): ChannelRefund | undefined {
  return refund === null ? undefined : JSON.parse(refund);
}
