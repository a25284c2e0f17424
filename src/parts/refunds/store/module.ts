import { movedElsewhere } from "../../../core/payment.ts";
import { hasFailed } from "../../../core/result-answer.ts";
import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { EndedCall } from "../../../store/machine/announcements.ts";
import { type Effect, type Known, paymentOf, put, type Reactions } from "../../../store/machine/changes.ts";
import type { Commit, StoreModule } from "../../../store/module.ts";
import type { SoldPayment } from "../../../store/payment-row.ts";
import { keyIn, type Rows, type Table } from "../../../store/rows.ts";
import { queueTransaction, transactionKey } from "../../transactions/store/module.ts";
import { ANNOUNCED, announcementsOf } from "./announcements.ts";
import type { Refund, RefundLedger, RefundState } from "./ledger.ts";
import { AFTER_COPY, COUNTED, KEPT, SHOWN } from "./queries.ts";
import { REFUND_COLUMNS, type RefundRow, toRefund } from "./row.ts";
import { canRetry, decided, ended, held, refundEvent, sent } from "./rules.ts";
import { refundsSchema } from "./schema.ts";

export const REFUNDS_TABLE: Table<RefundRow, "call_id"> = {
  name: "refunds",
  key: ["call_id"],
  columns: REFUND_COLUMNS,
};

const COLUMN_LIST = REFUND_COLUMNS.join(", ");

/**
 * A refund is owed for a JobCall that failed, until its dead letter is retried. A refund is also owed for a released
 * payment whose authorization moved money after all.
 */
const REACTIONS: Reactions = {
  deadLettered: ({ call, at }, known) => owedFor(call, at, known),

  finished: ({ call, status, at }, known) => (hasFailed(status) ? owedFor(call, at, known) : []),

  paymentContradicted({ payment, at }, known) {
    const moved = payment.state === "released" && movedElsewhere(payment.settlement ?? undefined);
    if (!moved) return [];
    // A refund in a copy of a store may have been sent since the copy was made.
    return owedOfOther(payment, { amount: moved.amount, at }, known);
  },

  owed: ({ payment, amount, at }, known) => owedOfOther(payment, { amount, at }, known),

  revived({ callId }, known) {
    const refund = refundOf(callId, known.rows);
    if (refund === undefined || refund.state === "cancelled") return [];
    return changed(refund, { ...refund, state: "cancelled" }, known);
  },
};

function owedFor(call: EndedCall, at: number, known: Known): Effect[] {
  const payment = paymentOf(call, known);
  // A payment that is charged after its job charges nothing for a job that failed.
  if (payment === undefined || payment.on_failure === "keep" || payment.charge !== "before") return [];
  const isAsked = payment.on_failure === "ask";
  if (known.givesBack(payment) && !isAsked) return [];
  // A payment that the operator closed as paid is not proven, so its refund needs the operator's approval.
  const isApproved = payment.on_failure === "refund" && payment.closed === null;
  return owed(payment, { amount: payment.amount, isApproved, isOfFailed: true, at }, known);
}

function owedOfOther(
  payment: SoldPayment,
  due: { readonly amount: string; readonly at: number },
  known: Known,
): Effect[] {
  return owed(payment, { ...due, isApproved: payment.on_failure !== "ask", isOfFailed: false }, known);
}

function owed(
  { call_id, network, asset, symbol, payer }: SoldPayment,
  due: {
    readonly amount: string;
    readonly isApproved: boolean;
    readonly isOfFailed: boolean;
    readonly at: number;
  },
  known: Known,
): Effect[] {
  const { amount, isApproved, isOfFailed, at } = due;
  const before = refundOf(call_id, known.rows);
  if (before !== undefined && before.state !== "cancelled") return [];
  // The journal may still have the earlier refund's transaction under the number of its attempt.
  const attempt = before === undefined ? 1 : before.attempt + (before.reference === null ? 0 : 1);
  const money = { call_id, network, asset, symbol, payer, amount };
  const nothingSent = { reference: null, hash: null, block_number: null, reason: null, decision: null };
  const open = {
    state: "owed",
    is_approved: isApproved ? 1 : 0,
    is_of_failed: isOfFailed ? 1 : 0,
    attempt,
    created_at: at,
    updated_at: at,
  } as const;
  return changed(before, { ...money, ...nothingSent, ...open }, known);
}

const keyOf = (callId: number) => [keyIn(REFUNDS_TABLE, { call_id: callId })];

/** Refunds of JobCalls that failed, and of released payments that moved money. */
export const REFUNDS: StoreModule<RefundLedger> = {
  schema: { table: REFUNDS_TABLE.name, sql: refundsSchema },
  announces: ANNOUNCED,
  on: REACTIONS,
  keysOfCall: keyOf,
  canRetry: (callId, rows) => canRetry(refundOf(callId, rows)),
  keeps: KEPT,
  shown: SHOWN,
  counted: COUNTED,
  afterCopy: AFTER_COPY,
  forOperator: ["listRefunds", "findRefundStates"],

  steps: {
    holdRefund: {
      keys: keyOf,
      run(commit, now, callId, reason, options) {
        const before = refundOf(callId, commit.rows);
        return change(commit, before, held(before, reason, options, now)) !== undefined;
      },
    },

    sendRefund: {
      keys: (callId, _attempt, { network, reference }) => [
        ...keyOf(callId),
        transactionKey(network, reference),
      ],
      run(commit, now, callId, attempt, transaction) {
        const before = refundOf(callId, commit.rows);
        const row = sent(before, { attempt, reference: transaction.reference }, now);
        if (row !== undefined) queueTransaction(commit.rows, transaction, now);
        return toRefund(change(commit, before, row));
      },
      event: (refund) => refund && refundEvent(refund),
    },

    endRefund: {
      keys: keyOf,
      callIds: (callId) => [callId],
      run(commit, now, callId, reference, end) {
        const before = refundOf(callId, commit.rows);
        const row = change(commit, before, ended(before, reference, end, now));
        if (row !== undefined && end.state === "sent") noteSent(commit, row, end.account);
        return toRefund(row);
      },
      event: (refund) => refund && refundEvent(refund),
    },

    decideRefund: {
      keys: keyOf,
      callIds: (callId) => [callId],
      reactsFor: (callId) => [callId],
      run(commit, now, callId, decision) {
        const before = refundOf(callId, commit.rows);
        const payment = commit.payment(callId);
        const isOwn = payment !== undefined && commit.givesBack(payment);
        const after = decided(before, decision, now);
        const isReturned = isOwn && after?.state === "owed";
        const row = change(
          commit,
          before,
          after && { ...after, state: isReturned ? "refunded" : after.state },
        );
        if (isOwn && row !== undefined) commit.note({ kind: "returnDecided", callId, isReturned });
        const refund = toRefund(row ?? before);
        return row === undefined || refund === undefined
          ? { kind: "not_open", refund }
          : { kind: "decided", refund };
      },
      event: (outcome) => (outcome.kind === "decided" ? refundEvent(outcome.refund) : undefined),
    },
  },

  lookups: {
    *listOpenRefunds({ dialect }, network, { state, limit, after = 0 }): Lookup<Refund[]> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT ${COLUMN_LIST} FROM ${dialect.schema}refunds${dialect.indexedBy("refunds_open")}
        WHERE network = ${add(network)} AND state = ${add(state)} AND state IN ('owed', 'sending')
          AND (state = 'sending' OR is_approved = 1) AND call_id > ${add(after)} ORDER BY call_id LIMIT ${add(limit)}`;
      return toRefunds(yield { name: "list_open_refunds", sql, values });
    },

    *countOpenRefunds({ dialect }): Lookup<number> {
      const sql = `SELECT count(*) AS refunds FROM ${dialect.schema}refunds${dialect.indexedBy("refunds_open")}
        WHERE state IN ('owed', 'sending')`;
      const [row] = yield { name: "count_open_refunds", sql, values: [] };
      return Number((row as { readonly refunds: unknown }).refunds);
    },

    *listRefunds({ dialect }, { state, limit, before = Number.MAX_SAFE_INTEGER }): Lookup<Refund[]> {
      const { values, add } = parameters(dialect);
      const isWanted = state === undefined ? "state <> 'cancelled'" : `state = ${add(state)}`;
      const sql = `SELECT ${COLUMN_LIST} FROM ${dialect.schema}refunds
        WHERE ${isWanted} AND call_id < ${add(before)} ORDER BY call_id DESC LIMIT ${add(limit)}`;
      return toRefunds(
        yield { name: state === undefined ? "list_refunds" : "list_refunds_in_state", sql, values },
      );
    },

    *findRefundStates({ dialect }, callIds): Lookup<Pick<Refund, "callId" | "state">[]> {
      if (callIds.length === 0) return [];
      const { values, add } = parameters(dialect);
      const sql = `SELECT call_id, state FROM ${dialect.schema}refunds
        WHERE state <> 'cancelled' AND call_id IN (${callIds.map(add).join()}) ORDER BY call_id`;
      const rows = (yield { sql, values }) as { call_id: number; state: RefundState }[];
      return rows.map(({ call_id: callId, state }) => ({ callId, state }));
    },
  },
};

/** Finds the refund of a JobCall, even if it was cancelled. */
export function refundOf(callId: number, rows: Pick<Rows, "find">): RefundRow | undefined {
  return rows.find(REFUNDS_TABLE, { call_id: callId });
}

/** @param row the changed refund; undefined if nothing changes */
function change(
  commit: Commit,
  before: RefundRow | undefined,
  row: RefundRow | undefined,
): RefundRow | undefined {
  if (row === undefined) return undefined;
  commit.rows.put(REFUNDS_TABLE, row);
  if (row.state !== before?.state)
    for (const announcement of announcementsOf(row, before, commit))
      commit.note({ kind: "announced", announcement });
  return row;
}

function changed(before: RefundRow | undefined, refund: RefundRow, known: Known): Effect[] {
  const announcements = announcementsOf(refund, before, known);
  return [
    put(REFUNDS_TABLE, refund),
    ...announcements.map(
      (announcement) => ({ kind: "change", change: { kind: "announced", announcement } }) as const,
    ),
  ];
}

/** Notes that a refund was sent. */
function noteSent(commit: Commit, refund: RefundRow, account: string | null): void {
  const payment = commit.payment(refund.call_id);
  if (payment === undefined) return;
  const {
    network,
    amount,
    payer: counterparty,
    hash: transaction_hash,
    block_number,
    updated_at: at,
  } = refund;
  const moved = { network, amount, account, counterparty, transaction_hash, block_number };
  commit.note({ kind: "moneySent", sent: { ...moved, as: "refund", at, payment } });
}

function toRefunds(rows: readonly unknown[]): Refund[] {
  return (rows as RefundRow[]).flatMap((row) => toRefund(row) ?? []);
}
