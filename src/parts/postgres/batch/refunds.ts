import { type RefundRow, toRefund } from "../../../store/refund-row.ts";
import { decided, ended, held, sent } from "../../../store/rules/refunds.ts";
import { toTransactionRow } from "../../../store/transaction-row.ts";
import { type Sql, storable } from "../sql.ts";
import type { BatchContext, BatchPart, Entry } from "./batch.ts";
import type { PostgresEffects } from "./effects.ts";
import { QUEUE_TRANSACTIONS } from "./transactions.ts";

type RefundEntry = Entry<"holdRefund" | "sendRefund" | "endRefund" | "decideRefund">;

/** Operations on refunds that write. */
export class RefundsPart implements BatchPart {
  readonly callIds = 0;
  readonly #entries: readonly RefundEntry[];

  constructor(entries: readonly RefundEntry[]) {
    this.#entries = entries;
  }

  load(_sql: Sql, effects: PostgresEffects): Promise<void> {
    const callIds = this.#entries.map(({ input: [callId] }) => callId);
    effects.willChangeRefunds(callIds);
    effects.willNeedPayments(callIds);
    return Promise.resolve();
  }

  async write({ sql, now, effects }: BatchContext): Promise<void> {
    const queued = this.#entries.flatMap((entry) => apply(entry, effects, now));
    if (queued.length > 0) await sql.run(QUEUE_TRANSACTIONS, [JSON.stringify(queued)]);
  }
}

/** @returns the transactions to queue */
function apply(
  entry: RefundEntry,
  effects: PostgresEffects,
  now: number,
): ReturnType<typeof toTransactionRow>[] {
  const row = effects.refund(entry.input[0]);
  switch (entry.name) {
    case "holdRefund": {
      const [, reason, options] = entry.input;
      entry.decide(change(row, held(row, reason, options, now), effects));
      return [];
    }
    case "sendRefund": {
      const [, attempt, transaction] = entry.input;
      const changed = sent(row, { attempt, reference: transaction.reference }, now);
      entry.decide(toRefund(changed));
      return change(row, changed, effects) ? [toTransactionRow(transaction, now)] : [];
    }
    case "endRefund": {
      const [, reference, end] = entry.input;
      const changed = ended(row, reference, end, now);
      change(row, changed, effects);
      entry.decide(toRefund(changed));
      return [];
    }
    case "decideRefund": {
      const { as, by, note } = entry.input[1];
      const changed = decided(row, { as, by: storable(by), note: storable(note) }, now);
      const refund = toRefund(changed ?? row);
      if (change(row, changed, effects) && refund !== undefined) entry.decide({ kind: "decided", refund });
      else entry.decide({ kind: "not_open", refund });
      return [];
    }
  }
}

function change(
  before: RefundRow | undefined,
  after: RefundRow | undefined,
  effects: PostgresEffects,
): boolean {
  if (before === undefined || after === undefined) return false;
  const row = { ...after, reason: storable(after.reason ?? undefined) };
  effects.apply({ kind: "refund", from: before.state, row });
  return true;
}
