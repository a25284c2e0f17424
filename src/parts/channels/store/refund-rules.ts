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
  /** Request of the payer; undefined for a refund by the operator. */
  readonly request?: string;
  /** Sums of the channel when the refund had ended. */
  readonly after?: Pick<ChannelRow, "balance" | "claimed" | "base" | "withdraw_at">;
}

/** A request for a refund. */
export interface AskedRefund {
  /** Amount in token units; undefined for everything that is not charged. */
  readonly amount: string | undefined;
  /** Number of the next refund in a confirmed block, and the balance and the withdrawal in the newest block. */
  readonly chain: Pick<ChannelState, "refundNonce" | "balance" | "withdrawAt">;
  /** Identifies the payer's request; undefined for a request of the operator. */
  readonly request?: string;
}

/** Result of a request for a refund. `paid`: the request was paid before. */
export type RefundDecision =
  | { readonly kind: "paid"; readonly row: ChannelRow; readonly refund: ChannelRefund }
  | { readonly kind: "refunding"; readonly row: ChannelRow; readonly refund: ChannelRefund }
  | { readonly kind: "busy" | "nothing" };

/**
 * Decides about a payer's request for a refund: all that is not charged, or a part of it. A request that was paid before gets
 * its first outcome, unless it is for all, and more has become free since.
 * @param first refund that the same request has begun before
 */
export function refundDecision(
  row: ChannelRow | undefined,
  asked: AskedRefund,
  now: number,
  first?: ChannelRefund,
): RefundDecision {
  if (row === undefined) return { kind: "nothing" };
  const under = refundOf(row);
  if (row.status === "refunding" && under !== undefined) return { kind: "refunding", row, refund: under };
  const isPaid = first !== undefined && wasPaid(first, asked.chain);
  const again: RefundDecision | undefined = isPaid ? { kind: "paid", row, refund: first } : undefined;
  if (asked.amount !== undefined && again !== undefined) return again;
  const decision = newRefund(row, asked, now);
  return decision.kind === "refunding" ? decision : (again ?? decision);
}

/** Reports whether a refund was paid. The `refundNonce` of the chain is the number of paid refunds of the channel. */
function wasPaid({ state, nonce }: ChannelRefund, chain: Pick<ChannelState, "refundNonce">): boolean {
  return state === "done" || BigInt(chain.refundNonce) > BigInt(nonce);
}

function newRefund(
  row: ChannelRow,
  { amount: wanted, chain, request }: AskedRefund,
  now: number,
): RefundDecision {
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
    ...(request !== undefined && { request }),
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
  const after = { balance: chain.balance, claimed, base: row.base, withdraw_at: chain.withdrawAt || null };
  const done: ChannelRefund = {
    ...{ ...refund, state: "done", after },
    ...(transaction !== undefined && { transaction }),
  };
  const status: ChannelStatus = chain.withdrawAt > 0 ? "withdrawing" : "open";
  const next = { ...row, ...after, status, balance_block: chain.block, updated_at: now };
  return withDue({ ...next, refund: JSON.stringify(done) }, now);
}

export function refundOf({ refund }: Pick<ChannelRow, "refund">): ChannelRefund | undefined {
  return refund === null ? undefined : JSON.parse(refund);
}
