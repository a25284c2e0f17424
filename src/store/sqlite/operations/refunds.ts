import { REFUND_COLUMN_LIST, type RefundRow, toRefund } from "../../refund-row.ts";
import { decided, ended, held, sent } from "../../rules/refunds.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { SqliteEffects } from "./effects.ts";

export function refundOperations(
  effects: SqliteEffects,
  queueTransaction: OperationTable<"queueTransaction">["queueTransaction"],
): OperationTable<"holdRefund" | "sendRefund" | "endRefund" | "decideRefund"> {
  /** Writes a refund that an operation changes. */
  function write(before: RefundRow | undefined, row: RefundRow): void {
    effects.apply({ kind: "refund", from: before?.state, row });
  }

  return {
    holdRefund(now, callId, reason, options) {
      const before = effects.refund(callId);
      const row = held(before, reason, options, now);
      if (row !== undefined) write(before, row);
      return row !== undefined;
    },

    sendRefund(now, callId, attempt, transaction) {
      const before = effects.refund(callId);
      const row = sent(before, { attempt, reference: transaction.reference }, now);
      if (row === undefined) return undefined;
      write(before, row);
      queueTransaction(now, transaction);
      return toRefund(row);
    },

    endRefund(now, callId, reference, end) {
      const before = effects.refund(callId);
      const row = ended(before, reference, end, now);
      if (row === undefined) return undefined;
      write(before, row);
      return toRefund(row);
    },

    decideRefund(now, callId, decision) {
      const known = effects.refund(callId);
      const row = decided(known, decision, now);
      const refund = toRefund(row ?? known);
      if (row === undefined || refund === undefined) return { kind: "not_open", refund };
      write(known, row);
      return { kind: "decided", refund };
    },
  };
}

export function refundLookups(database: Database): OperationTable<"listOpenRefunds" | "listRefunds"> {
  const selectOpen = database.prepare<RefundRow>(
    `SELECT ${REFUND_COLUMN_LIST} FROM refunds INDEXED BY refunds_open
      WHERE network = ? AND state = ? AND state IN ('owed', 'sending') AND (state = 'sending' OR is_approved = 1)
        AND call_id > ? ORDER BY call_id LIMIT ?`,
  );
  const selectInState = database.prepare<RefundRow>(
    `SELECT ${REFUND_COLUMN_LIST} FROM refunds INDEXED BY refunds_by_state
      WHERE state = ? AND call_id < ? ORDER BY call_id DESC LIMIT ?`,
  );
  const selectNewest = database.prepare<RefundRow>(
    `SELECT ${REFUND_COLUMN_LIST} FROM refunds
      WHERE state <> 'cancelled' AND call_id < ? ORDER BY call_id DESC LIMIT ?`,
  );
  return {
    listOpenRefunds: (_now, network, { state, limit, after = 0 }) =>
      selectOpen.all([network, state, after, limit]).flatMap((row) => toRefund(row) ?? []),
    listRefunds(_now, { state, limit, before = Number.MAX_SAFE_INTEGER }) {
      const rows =
        state === undefined ? selectNewest.all([before, limit]) : selectInState.all([state, before, limit]);
      return rows.flatMap((row) => toRefund(row) ?? []);
    },
  };
}
