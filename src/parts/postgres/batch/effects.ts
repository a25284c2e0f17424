import type { PaymentIntent, PaymentKey } from "../../../core/payment.ts";
import { type EndpointRow, NEW_CALLBACK_COLUMNS } from "../../../store/callback-row.ts";
import type { EndedCall } from "../../../store/machine/changes.ts";
import { Effects } from "../../../store/machine/effects.ts";
import { MOVEMENT_COLUMN_LIST } from "../../../store/movement-row.ts";
import { SOLD_COLUMNS, type SoldPayment } from "../../../store/payment-row.ts";
import {
  CHANGED_REFUND_COLUMNS,
  REFUND_COLUMN_LIST,
  REFUND_COLUMNS,
  type RefundRow,
} from "../../../store/refund-row.ts";
import { numberArray, type Sql, statement, toJson } from "../sql.ts";
import { PostgresPaymentRows, type WriteContext } from "./payment-rows.ts";

const SOLD_PAYMENTS = statement<SoldPayment>(
  "sold_payments",
  `SELECT ${SOLD_COLUMNS.join()} FROM jobgate.payments WHERE call_id = ANY ($1::bigint[])`,
);
// Ordered alike in all batches, so that no two wait for each other.
const LOCK_REFUNDS = statement<RefundRow>(
  "lock_refunds",
  `SELECT ${REFUND_COLUMN_LIST} FROM jobgate.refunds
    WHERE call_id = ANY ($1::bigint[]) ORDER BY call_id FOR UPDATE`,
);
const REFUND_ACCOUNTS = statement<{ call_id: number; account: string | null }>(
  "refund_accounts",
  `SELECT call_id, account FROM jobgate.refunds
     JOIN jobgate.settler_transactions AS sent
       ON sent.network = refunds.network || '/refunds' AND sent.reference = refunds.reference
    WHERE call_id = ANY ($1::bigint[])`,
);
const WRITE_REFUNDS = statement(
  "write_refunds",
  `INSERT INTO jobgate.refunds (${REFUND_COLUMNS.join()})
   SELECT ${REFUND_COLUMNS.join()} FROM json_populate_recordset(NULL::jobgate.refunds, $1::json) ORDER BY call_id
   ON CONFLICT (call_id) DO UPDATE
     SET ${CHANGED_REFUND_COLUMNS.map((column) => `${column} = excluded.${column}`).join()}`,
);
const INSERT_CALLBACKS = statement(
  "insert_callbacks",
  `INSERT INTO jobgate.callbacks (${NEW_CALLBACK_COLUMNS.join()})
   SELECT ${NEW_CALLBACK_COLUMNS.join()} FROM json_populate_recordset(NULL::jobgate.callbacks, $1::json)
   ON CONFLICT DO NOTHING`,
);
const INSERT_MOVEMENTS = statement(
  "insert_movements",
  `INSERT INTO jobgate.movements (${MOVEMENT_COLUMN_LIST})
   SELECT ${MOVEMENT_COLUMN_LIST} FROM json_populate_recordset(NULL::jobgate.movements, $1::json)`,
);
const ADD_REVENUE = statement(
  "add_revenue",
  `INSERT INTO jobgate.revenue_hours AS sums (hour, network, asset, symbol, slot, amount, payments)
   SELECT hour, network, asset, symbol, pg_backend_pid() % 64, amount, payments
     FROM json_populate_recordset(NULL::jobgate.revenue_hours, $1::json) ORDER BY hour, network, asset, symbol
   ON CONFLICT (hour, network, asset, symbol, slot) DO UPDATE
     SET amount = sums.amount + excluded.amount, payments = sums.payments + excluded.payments`,
);

/**
 * Effects of one batch. The batch reads the rows that reactions need together with the rows that it locks, and writes the
 * effects together with the rows that it changes. Neither takes a round trip of its own.
 */
export class PostgresEffects extends Effects {
  readonly paymentRows = new PostgresPaymentRows();
  readonly #neededPayments = new Set<number>();
  readonly #neededRefunds = new Set<number>();
  readonly #refunds = new Map<number, RefundRow>();
  readonly #refundAccounts = new Map<number, string | null>();
  readonly #succeeded = new Set<number>();
  readonly #changedRefunds = new Set<number>();
  #endpoints: readonly EndpointRow[] = [];

  /** Lets {@link load} read payments, by call ID. */
  willNeedPayments(callIds: readonly number[]): void {
    for (const callId of callIds) this.#neededPayments.add(callId);
  }

  /** Lets {@link load} lock refunds. All of a batch are locked by one statement, in order, so that no two batches wait for each other. */
  willChangeRefunds(callIds: readonly number[]): void {
    for (const callId of callIds) this.#neededRefunds.add(callId);
  }

  /** Reads what is needed, as it is once the rows before are locked. Sends its statements before it first waits. */
  async load(sql: Sql): Promise<void> {
    const paid = [...this.#neededPayments].filter((callId) => this.payment(callId) === undefined);
    const refunded = numberArray([...this.#neededRefunds].filter((callId) => !this.#refunds.has(callId)));
    this.#neededPayments.clear();
    this.#neededRefunds.clear();
    const [payments, refunds, accounts] = await Promise.all([
      paid.length === 0 ? [] : sql.run(SOLD_PAYMENTS, [numberArray(paid)]),
      refunded === "{}" ? [] : sql.run(LOCK_REFUNDS, [refunded]),
      refunded === "{}" ? [] : sql.run(REFUND_ACCOUNTS, [refunded]),
    ]);
    // Those that the batch itself may change are live.
    for (const row of payments) if (this.payment(row.call_id) === undefined) this.paymentRows.use(row);
    for (const row of refunds) this.#refunds.set(row.call_id, row);
    for (const { call_id, account } of accounts) this.#refundAccounts.set(call_id, account);
  }

  /** Locks payments by key. Sends its statements before it first waits. */
  async lockPayments(
    sql: Sql,
    keys: readonly PaymentKey[],
    intents: readonly PaymentIntent[],
  ): Promise<void> {
    for (const callId of await this.paymentRows.load(sql, keys, intents)) this.#succeeded.add(callId);
  }

  useEndpoints(endpoints: readonly EndpointRow[]): void {
    this.#endpoints = endpoints;
  }

  payment(callId: number): SoldPayment | undefined {
    return this.paymentRows.get(callId);
  }

  buyersUrl(callId: number): string | null {
    return this.payment(callId)?.callback_url ?? null;
  }

  refund(callId: number): RefundRow | undefined {
    return this.#refunds.get(callId);
  }

  refundAccount({ call_id }: RefundRow): string | null {
    return this.#refundAccounts.get(call_id) ?? null;
  }

  hasSucceeded(callId: number): boolean {
    return this.#succeeded.has(callId);
  }

  endpoints(): readonly EndpointRow[] {
    return this.#endpoints;
  }

  /** Notes that a JobCall was acked. */
  finished(call: EndedCall, charge: string | null, at: number): void {
    this.#succeeded.add(call.call_id);
    this.note({ kind: "finished", call, charge, at });
  }

  /**
   * Writes what was caused since the last call. Sends its statements before it first waits.
   * @throws LostRace when another batch has decided a payment meanwhile
   */
  async write(context: WriteContext): Promise<void> {
    const { sql } = context;
    const { movements, callbacks, revenue } = this.takeAdded();
    const sums = revenue.map((sum) => ({ ...sum, amount: String(sum.amount) }));
    const refunds = [...this.#changedRefunds].flatMap((callId) => this.#refunds.get(callId) ?? []);
    this.#changedRefunds.clear();
    await Promise.all([
      this.paymentRows.write(context),
      refunds.length === 0 ? [] : sql.run(WRITE_REFUNDS, [toJson(refunds)]),
      callbacks.length === 0 ? [] : sql.run(INSERT_CALLBACKS, [toJson(callbacks)]),
      movements.length === 0 ? [] : sql.run(INSERT_MOVEMENTS, [toJson(movements)]),
      sums.length === 0 ? [] : sql.run(ADD_REVENUE, [toJson(sums)]),
    ]);
  }

  protected changeRefund(refund: RefundRow): void {
    this.#refunds.set(refund.call_id, refund);
    this.#changedRefunds.add(refund.call_id);
  }
}
