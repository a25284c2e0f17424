import type { RefundState } from "../core/payment.ts";
import type { Refund } from "./contract/refund-ledger.ts";

/** Columns of a row of `refunds`. */
export interface RefundRow {
  call_id: number;
  state: RefundState | "cancelled";
  is_approved: 0 | 1;
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

/** Columns that change after a row was inserted: `created_at` too, when a cancelled refund is owed again. */
export const CHANGED_REFUND_COLUMNS = [
  "state",
  "is_approved",
  "attempt",
  "reference",
  "hash",
  "block_number",
  "reason",
  "decision",
  "created_at",
  "updated_at",
] as const satisfies readonly (keyof RefundRow)[];

export const REFUND_COLUMNS = [
  "call_id",
  "network",
  "asset",
  "symbol",
  "payer",
  "amount",
  ...CHANGED_REFUND_COLUMNS,
] as const satisfies readonly (keyof RefundRow)[];

/** Named one by one: a `*` would break the plans of running replicas when a newer one adds a column. */
export const REFUND_COLUMN_LIST = REFUND_COLUMNS.map((column) => `refunds.${column}`).join(", ");

/** @returns undefined for a refund that was cancelled, and for none */
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
