import {
  CHANGED_REFUND_COLUMNS,
  REFUND_COLUMN_LIST,
  type RefundRow,
  toRefund,
} from "../../../store/refund-row.ts";
import { decided, ended, held, sent } from "../../../store/rules/refunds.ts";
import { toTransactionRow } from "../../../store/transaction-row.ts";
import { LostRace } from "../connection/database-errors.ts";
import { numberArray, type Sql, statement, storable } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";
import type { Effects } from "./effects.ts";
import { QUEUE_TRANSACTIONS } from "./transactions.ts";

// Ordered alike in all batches, so that no two wait for each other.
const LOCK_REFUNDS = statement<RefundRow>(
  "lock_refunds",
  `SELECT ${REFUND_COLUMN_LIST} FROM jobgate.refunds
    WHERE call_id = ANY ($1::bigint[]) ORDER BY call_id FOR UPDATE`,
);
const WRITE_REFUNDS = statement<{ call_id: number }>(
  "write_refunds",
  `UPDATE jobgate.refunds AS written
      SET ${CHANGED_REFUND_COLUMNS.map((column) => `${column} = new.${column}`).join(", ")}
     FROM json_populate_recordset(NULL::jobgate.refunds, $1::json) AS new
    WHERE written.call_id = new.call_id AND written.state <> 'cancelled' RETURNING written.call_id`,
);

type RefundEntry = Entry<"holdRefund" | "sendRefund" | "endRefund" | "decideRefund">;

/** Operations on refunds that write. The triggers of `job_calls` add and cancel them. */
export class RefundsPart implements BatchPart {
  readonly callIds = 0;
  readonly #entries: readonly RefundEntry[];
  readonly #rows = new Map<number, RefundRow>();
  readonly #changed = new Set<number>();

  constructor(entries: readonly RefundEntry[]) {
    this.#entries = entries;
  }

  /** Comes after the other parts: their rows are locked before refunds, as in the triggers. */
  async load(sql: Sql, effects: Effects): Promise<void> {
    if (this.#entries.length === 0) return;
    const callIds = this.#entries.map(({ input: [callId] }) => callId);
    const [rows] = await Promise.all([
      sql.run(LOCK_REFUNDS, [numberArray(callIds)]),
      effects.loadRefunded(sql, callIds),
    ]);
    for (const row of rows) this.#rows.set(row.call_id, row);
  }

  /** @throws LostRace when the batch retries the dead letter of a refund that it changes */
  async write({ sql, now, effects }: BatchContext): Promise<void> {
    const queued = this.#entries.flatMap((entry) => this.#apply(entry, effects, now));
    const changed = [...this.#changed].map((callId) => this.#rows.get(callId));
    const [written] = await Promise.all([
      changed.length === 0 ? [] : sql.run(WRITE_REFUNDS, [JSON.stringify(changed)]),
      queued.length === 0 ? [] : sql.run(QUEUE_TRANSACTIONS, [JSON.stringify(queued)]),
    ]);
    if (written.length !== changed.length) throw new LostRace("a dead letter was retried in the same batch");
  }

  /** @returns the transactions to queue */
  #apply(entry: RefundEntry, effects: Effects, now: number): ReturnType<typeof toTransactionRow>[] {
    const row = this.#rows.get(entry.input[0]);
    switch (entry.name) {
      case "holdRefund": {
        const [, reason, options] = entry.input;
        entry.decide(this.#change(held(row, reason, options, now), effects));
        return [];
      }
      case "sendRefund": {
        const [, attempt, transaction] = entry.input;
        const changed = sent(row, { attempt, reference: transaction.reference }, now);
        entry.decide(toRefund(changed));
        return this.#change(changed, effects) ? [toTransactionRow(transaction, now)] : [];
      }
      case "endRefund": {
        const [, reference, end] = entry.input;
        const changed = ended(row, reference, end, now);
        this.#change(changed, effects);
        entry.decide(toRefund(changed));
        return [];
      }
      case "decideRefund": {
        const { as, by, note } = entry.input[1];
        const changed = decided(row, { as, by: storable(by), note: storable(note) }, now);
        const refund = toRefund(changed ?? row);
        if (this.#change(changed, effects) && refund !== undefined) entry.decide({ kind: "decided", refund });
        else entry.decide({ kind: "not_open", refund });
        return [];
      }
    }
  }

  #change(row: RefundRow | undefined, effects: Effects): boolean {
    if (row === undefined) return false;
    const refund = { ...row, reason: storable(row.reason ?? undefined) };
    this.#rows.set(row.call_id, refund);
    this.#changed.add(row.call_id);
    effects.note({ kind: "refundChanged", refund });
    return true;
  }
}
