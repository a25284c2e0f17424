import { CHANGED_REFUND_COLUMNS, REFUND_COLUMN_LIST, type RefundRow, toRefund } from "../../refund-row.ts";
import { canRetry, decided, ended, held, sent } from "../../rules/refunds.ts";
import type { Database, Statement } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { Effects } from "./effects.ts";

/** Reads and changes rows of `refunds`. The triggers of `job_calls` add and cancel them. */
export class Refunds {
  readonly #select: Statement<RefundRow>;
  readonly #update: Statement<unknown>;
  readonly #effects: Effects;

  constructor(database: Database, effects: Effects) {
    this.#effects = effects;
    this.#select = database.prepare(`SELECT ${REFUND_COLUMN_LIST} FROM refunds WHERE call_id = ?`);
    this.#update = database.prepare(
      `UPDATE refunds SET ${CHANGED_REFUND_COLUMNS.map((column) => `${column} = ?`).join(", ")} WHERE call_id = ?`,
    );
  }

  find(callId: number): RefundRow | undefined {
    return this.#select.get([callId]);
  }

  write(row: RefundRow): void {
    this.#update.run([...CHANGED_REFUND_COLUMNS.map((column) => row[column]), row.call_id]);
    this.#effects.note({ kind: "refundChanged", refund: row });
  }

  /** Checks whether the dead letter can be retried. */
  allowsRetry(callId: number): boolean {
    return canRetry(this.find(callId));
  }
}

export function refundOperations(
  database: Database,
  effects: Effects,
  queueTransaction: OperationTable<"queueTransaction">["queueTransaction"],
): OperationTable<"holdRefund" | "sendRefund" | "endRefund" | "decideRefund"> {
  const refunds = new Refunds(database, effects);
  return {
    holdRefund(now, callId, reason, options) {
      const row = held(refunds.find(callId), reason, options, now);
      if (row !== undefined) refunds.write(row);
      return row !== undefined;
    },

    sendRefund(now, callId, attempt, transaction) {
      const row = sent(refunds.find(callId), { attempt, reference: transaction.reference }, now);
      if (row === undefined) return undefined;
      refunds.write(row);
      queueTransaction(now, transaction);
      return toRefund(row);
    },

    endRefund(now, callId, reference, end) {
      const row = ended(refunds.find(callId), reference, end, now);
      if (row === undefined) return undefined;
      refunds.write(row);
      return toRefund(row);
    },

    decideRefund(now, callId, decision) {
      const known = refunds.find(callId);
      const row = decided(known, decision, now);
      const refund = toRefund(row ?? known);
      if (row === undefined || refund === undefined) return { kind: "not_open", refund };
      refunds.write(row);
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
