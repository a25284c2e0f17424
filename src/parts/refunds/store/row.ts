import type { Refund, RefundState } from "./ledger.ts";

/** Columns of a row of `refunds`. */
export interface RefundRow {
  call_id: number;
  state: RefundState | "cancelled";
  is_approved: 0 | 1;
  is_of_failed: 0 | 1;
  network: string;
  asset: string;
  symbol: string;
  payer: string;
  amount: string;
  attempt: number;
  reference: string | null;
  hash: string | null;
  /** Block that it is in. */
  block_number: string | null;
  reason: string | null;
  /** JSON of {@link Refund.decision}. */
  decision: string | null;
  created_at: number;
  updated_at: number;
}

export const REFUND_COLUMNS = [
  "call_id",
  "network",
  "asset",
  "symbol",
  "payer",
  "amount",
  "state",
  "is_approved",
  "is_of_failed",
  "attempt",
  "reference",
  "hash",
  "block_number",
  "reason",
  "decision",
  "created_at",
  "updated_at",
] as const satisfies readonly (keyof RefundRow)[];

/** @returns undefined for a refund that was cancelled, and without a row */
export function toRefund(row: RefundRow | undefined): Refund | undefined {
  if (row === undefined || row.state === "cancelled") return undefined;
  const { state, reference, hash, reason, decision } = row;
  return {
    callId: row.call_id,
    state,
    isApproved: row.is_approved === 1,
    network: row.network,
    asset: row.asset,
    symbol: row.symbol,
    payer: row.payer,
    amount: row.amount,
    attempt: row.attempt,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    reference: reference ?? undefined,
    transaction: hash ?? undefined,
    reason: reason ?? undefined,
    decision: decision === null ? undefined : JSON.parse(decision),
  };
}
