import { sumsByHour } from "../../../store/machine/books.ts";
import {
  type Change,
  type Effect,
  type Known,
  type Revenue,
  SOLD_COLUMNS,
  type SoldPayment,
} from "../../../store/machine/changes.ts";
import { react } from "../../../store/machine/react.ts";
import { MOVEMENT_COLUMN_LIST, type NewMovementRow } from "../../../store/movement-row.ts";
import type { RefundRow } from "../../../store/refund-row.ts";
import { numberArray, type Sql, statement, storable } from "../sql.ts";

const SOLD_PAYMENTS = statement<SoldPayment>(
  "sold_payments",
  `SELECT ${SOLD_COLUMNS.join()} FROM jobgate.payments WHERE call_id = ANY ($1::bigint[])`,
);
const REFUND_ACCOUNTS = statement<{ call_id: number; account: string | null }>(
  "refund_accounts",
  `SELECT call_id, account FROM jobgate.refunds
     JOIN jobgate.settler_transactions AS sent
       ON sent.network = refunds.network || '/refunds' AND sent.reference = refunds.reference
    WHERE call_id = ANY ($1::bigint[])`,
);
const INSERT_MOVEMENTS = statement(
  "insert_movements",
  `INSERT INTO jobgate.movements (${MOVEMENT_COLUMN_LIST})
   SELECT ${MOVEMENT_COLUMN_LIST} FROM json_populate_recordset(NULL::jobgate.movements, $1::json)`,
);
// Ordered alike in all batches, so that no two wait for each other.
const ADD_REVENUE = statement(
  "add_revenue",
  `INSERT INTO jobgate.revenue_hours AS sums (hour, network, asset, symbol, slot, amount, payments)
   SELECT hour, network, asset, symbol, pg_backend_pid() % 64, amount, payments
     FROM json_populate_recordset(NULL::jobgate.revenue_hours, $1::json) ORDER BY hour, network, asset, symbol
   ON CONFLICT (hour, network, asset, symbol, slot) DO UPDATE
     SET amount = sums.amount + excluded.amount, payments = sums.payments + excluded.payments`,
);

/** Writes what changes of a batch cause, in the round trip in which its other rows are written. */
export class Effects implements Known {
  readonly #payments = new Map<number, SoldPayment>();
  readonly #refundAccounts = new Map<number, string | null>();
  readonly #movements: NewMovementRow[] = [];
  readonly #revenue: Revenue[] = [];

  /** Reads what reactions to changes of these refunds need. */
  async loadRefunded(sql: Sql, callIds: readonly number[]): Promise<void> {
    const [payments, accounts] = await Promise.all([
      sql.run(SOLD_PAYMENTS, [numberArray(callIds)]),
      sql.run(REFUND_ACCOUNTS, [numberArray(callIds)]),
    ]);
    for (const payment of payments) this.#payments.set(payment.call_id, payment);
    for (const { call_id, account } of accounts) this.#refundAccounts.set(call_id, account);
  }

  /** Carries out what a change causes. */
  note(change: Change): void {
    for (const effect of react(change, this)) this.#apply(effect);
  }

  payment(callId: number): SoldPayment | undefined {
    return this.#payments.get(callId);
  }

  refundAccount({ call_id }: RefundRow): string | null {
    return this.#refundAccounts.get(call_id) ?? null;
  }

  /** Writes the rows that are only added. Sends its statements before it first waits. */
  async write(sql: Sql): Promise<void> {
    const revenue = sumsByHour(this.#revenue).map((sum) => ({ ...sum, amount: String(sum.amount) }));
    await Promise.all([
      this.#movements.length === 0 ? [] : sql.run(INSERT_MOVEMENTS, [toJson(this.#movements)]),
      revenue.length === 0 ? [] : sql.run(ADD_REVENUE, [toJson(revenue)]),
    ]);
  }

  #apply(effect: Effect): void {
    switch (effect.kind) {
      case "movement":
        this.#movements.push(effect.row);
        break;
      case "revenue":
        this.#revenue.push(effect.revenue);
        break;
    }
  }
}

function toJson(rows: readonly object[]): string {
  return JSON.stringify(rows, (_, value) => (typeof value === "string" ? storable(value) : value));
}
