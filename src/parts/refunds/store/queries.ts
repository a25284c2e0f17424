import type { ListDialect } from "../../../store/list-dialect.ts";
import type { AnyModule, CountQuery, KeptRows } from "../../../store/module.ts";
import type { StoreTotals } from "../../../store/store.ts";
import type { RefundSum } from "./ledger.ts";
import type { RefundRow } from "./row.ts";

/** Rows that a refund needs: the payment and the result of its JobCall, and its transaction while it is being sent. */
export const KEPT: readonly KeptRows[] = [
  {
    table: "payments",
    while: ({ schema }, row) =>
      `EXISTS (SELECT 1 FROM ${schema}refunds WHERE refunds.call_id = ${row}.call_id)`,
  },
  {
    table: "results",
    while: ({ schema }, row) =>
      `EXISTS (SELECT 1 FROM ${schema}refunds WHERE refunds.call_id = ${row}.call_id)`,
  },
  {
    table: "settler_transactions",
    while: ({ schema }, row) =>
      `EXISTS (SELECT 1 FROM ${schema}refunds WHERE refunds.reference = ${row}.reference AND refunds.state = 'sending')`,
  },
];

interface ShownColumns {
  readonly network: string;
  readonly asset: string;
  readonly refund_state: RefundRow["state"] | null;
  readonly is_approved: 0 | 1 | null;
  readonly refund_amount: string;
  readonly symbol: string;
  readonly refund_hash: string | null;
  readonly refund_reason: string | null;
}

/** The refund that the client of a JobCall sees. Why it waits is the seller's business; why it failed may be the payer's. */
export const SHOWN: NonNullable<AnyModule["shown"]> = {
  table: "refunds",
  columns:
    "refunds.state AS refund_state, is_approved, refunds.amount AS refund_amount, refunds.hash AS refund_hash, refunds.reason AS refund_reason",
  addition(row: ShownColumns) {
    const { refund_state: state, is_approved, refund_hash: transaction, refund_reason: reason } = row;
    if (state === null || state === "cancelled") return undefined;
    const { network, asset, symbol, refund_amount: amount } = row;
    const refund = {
      state,
      ...{ network, asset, symbol, amount },
      ...(transaction === null ? {} : { transaction }),
      ...(state === "refund_failed" && reason !== null ? { reason } : {}),
    };
    const goesOn = state === "sending" || (state === "owed" && is_approved === 1);
    return { fields: { refund }, state, goesOn, givesBack: state !== "declined" };
  },
};

type SumRow = Omit<RefundSum, "amount" | "oldestAt"> & {
  readonly amount: string;
  readonly oldest_at: number;
};

/** Counts dead letters, waiting or dropped, that were charged before and not sold with `on_failure` keep. */
function countRefundable({ schema, indexedBy }: ListDialect): CountQuery {
  const isRefundable = (table: string) =>
    `EXISTS (SELECT 1 FROM ${schema}payments
              WHERE payments.call_id = ${table}.call_id AND on_failure <> 'keep' AND charge = 'before')`;
  const n = `(SELECT count(*) FROM ${schema}job_calls${indexedBy("job_calls_dead_groups")}
               WHERE state = 'dead' AND dead_group >= 'x402' AND ${isRefundable("job_calls")})
           + (SELECT count(*) FROM ${schema}results WHERE state = 'failed' AND ${isRefundable("results")})`;
  return { values: { n }, from: "" };
}

interface CountedRefunds {
  readonly refunds: readonly SumRow[];
  readonly refundable: readonly { readonly n: number }[];
  readonly of_others: readonly { readonly n: number }[];
}

/** Refunds by token and state, without cancelled refunds. */
export const COUNTED: NonNullable<AnyModule["counted"]> = {
  queries: {
    refunds: ({ schema, sumOf }) => ({
      values: {
        ...{ network: "network", asset: "asset", symbol: "symbol", state: "state" },
        ...{ refunds: "count(*)", oldest_at: "min(created_at)", amount: sumOf("amount") },
      },
      from: `FROM ${schema}refunds WHERE state <> 'cancelled' GROUP BY network, asset, symbol, state`,
    }),
    refundable: countRefundable,
    of_others: ({ schema, indexedBy }) => ({
      values: { n: "count(*)" },
      from: `FROM ${schema}refunds${indexedBy("refunds_of_others")}
              WHERE is_of_failed = 0 AND state <> 'cancelled' AND (
                (SELECT state FROM ${schema}payments WHERE payments.call_id = refunds.call_id) = 'released'
                OR (SELECT state FROM ${schema}results WHERE results.call_id = refunds.call_id) = 'succeeded')`,
    }),
  },
  // The money of a declined refund is kept as well, but the refund accounts for its JobCall. A JobCall that succeeded counts as
  // done. The JobCall of a released payment counts as done, or as not charged.
  totals: (
    { refunds: rows, refundable: [refundable], of_others: [ofOthers] }: CountedRefunds,
    { kept, accounted, sums },
  ) => ({
    kept: kept - (refundable?.n ?? 0),
    accounted: rows.reduce((sum, { refunds }) => sum + refunds, accounted - (ofOthers?.n ?? 0)),
    sums: {
      ...sums,
      refunds: rows.map(({ amount, oldest_at: oldestAt, ...sum }): RefundSum => {
        return { ...sum, amount: BigInt(amount), oldestAt };
      }),
    },
  }),
};

/** Returns the refunds by token and state. */
export function refundSums({ sums }: Pick<StoreTotals, "sums">): readonly RefundSum[] {
  return (sums.refunds ?? []) as readonly RefundSum[];
}

/** Condition of transactions that jobgate may have replaced by another signed transaction since the copy was made. */
const MAY_BE_ANOTHER = "state = 'queued' OR (state = 'sent' AND network NOT LIKE 'eip155:%')";

/**
 * Money may have been given back since a copy was made. The operator approves each refund of a payment in the copy,
 * because a token's transfer does not say what it was for. Refunds whose signed transaction has no nonce also need this
 * approval, because jobgate may have signed another transaction after that transaction expired.
 */
export const AFTER_COPY = `
UPDATE payments SET on_failure = 'ask' WHERE on_failure = 'refund' OR charge <> 'before';
UPDATE refunds SET state = 'owed', is_approved = 0, reference = NULL, reason = 'may have been sent after the copy was made'
  WHERE state = 'owed' OR reference IN (SELECT reference FROM settler_transactions WHERE ${MAY_BE_ANOTHER});
DELETE FROM settler_transactions WHERE (${MAY_BE_ANOTHER}) AND network LIKE '%/refunds';
`;
