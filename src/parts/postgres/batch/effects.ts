import type { PaymentIntent, PaymentKey, PurchaseNotes } from "../../../core/payment.ts";
import { Effects } from "../../../store/machine/effects.ts";
import { keysOfCall } from "../../../store/modules/modules.ts";
import { notesOf, SOLD_COLUMNS, type SoldPayment } from "../../../store/payment-row.ts";
import { numberArray, type Sql, statement, toJson } from "../sql.ts";
import { PostgresKeys } from "./keys.ts";
import { PostgresLocks } from "./locks.ts";
import { PostgresRows } from "./module-rows.ts";
import { PostgresPaymentRows, type WriteContext } from "./payment-rows.ts";

const SOLD_PAYMENTS = statement<SoldPayment>(
  "sold_payments",
  `SELECT ${SOLD_COLUMNS.join()} FROM jobgate.payments WHERE call_id = ANY ($1::bigint[])`,
);
const ADD_REVENUE = statement(
  "add_revenue",
  `INSERT INTO jobgate.revenue_hours AS sums (hour, network, asset, symbol, slot, amount, payments)
   SELECT hour, network, asset, symbol, pg_backend_pid() % 64, amount, payments
     FROM json_populate_recordset(NULL::jobgate.revenue_hours, $1::json) ORDER BY hour, network, asset, symbol
   ON CONFLICT (hour, network, asset, symbol, slot) DO UPDATE
     SET amount = sums.amount + excluded.amount, payments = sums.payments + excluded.payments`,
);

const MAKE_READY = statement(
  "make_ready",
  "UPDATE jobgate.job_calls SET state = 'ready' WHERE call_id = ANY ($1::bigint[]) AND state = 'held'",
);

/**
 * Effects of one batch. The batch reads the rows that reactions need together with the rows that it locks, and writes the
 * effects together with the rows that it changes. So neither needs a separate round trip.
 */
export class PostgresEffects extends Effects {
  readonly rows = new PostgresRows();
  readonly paymentRows = new PostgresPaymentRows();
  readonly locks: PostgresLocks;
  readonly keys = new PostgresKeys();
  readonly #neededPayments = new Set<number>();
  #isChanging = false;
  readonly #succeeded = new Set<number>();
  #ready: number[] = [];
  /** True if JobCalls that a job's limit withheld can be claimed. */
  leavesWork = false;

  /** @param testNow replaces the database's clock */
  constructor(testNow: number | null) {
    super();
    this.locks = new PostgresLocks(testNow);
  }

  /** Makes {@link load} read the small tables, which steps and reactions to changes read completely. */
  willChange(): void {
    this.#isChanging = true;
  }

  /** Makes {@link load} read payments, by call ID. */
  willNeedPayments(callIds: readonly number[]): void {
    for (const callId of callIds) this.#neededPayments.add(callId);
  }

  /** Makes {@link load} lock the rows that may change when a JobCall ends, or when its payment later moves money. */
  willEnd(callIds: readonly number[]): void {
    for (const key of callIds.flatMap(keysOfCall)) this.rows.willNeed(key);
  }

  isHeld(lock: string, owner: string): boolean {
    return this.locks.isHeld(lock, owner);
  }

  /** Reads the declared rows, in their state after the earlier rows were locked. Sends its statements before it first waits. */
  async load(sql: Sql): Promise<void> {
    const paid = [...this.#neededPayments].filter((callId) => this.payment(callId) === undefined);
    this.#neededPayments.clear();
    const isChanging = this.#isChanging;
    this.#isChanging = false;
    const [payments] = await Promise.all([
      paid.length === 0 ? [] : sql.run(SOLD_PAYMENTS, [numberArray(paid)]),
      this.rows.load(sql),
      isChanging ? this.rows.loadSmall(sql) : [],
      this.keys.awaitsEnds ? [] : this.keys.load(sql, this.rows),
    ]);
    // Payments that the batch itself may change were read with their locks.
    for (const row of payments) if (this.payment(row.call_id) === undefined) this.paymentRows.use(row);
  }

  /** Locks payments by key. Sends its statements before it first waits. */
  async lockPayments(
    sql: Sql,
    keys: readonly PaymentKey[],
    intents: readonly PaymentIntent[],
  ): Promise<void> {
    for (const callId of await this.paymentRows.load(sql, keys, intents)) this.#succeeded.add(callId);
  }

  payment(callId: number): SoldPayment | undefined {
    return this.paymentRows.get(callId);
  }

  notes(callId: number): PurchaseNotes | undefined {
    return notesOf(this.payment(callId)?.notes ?? null);
  }

  protected hadSucceeded(callId: number): boolean {
    return this.#succeeded.has(callId);
  }

  firstWaiting(orderKey: string): number | undefined {
    return this.keys.takeFirst(orderKey);
  }

  freesPlace(): void {
    this.leavesWork = true;
  }

  protected makeReady(callId: number): void {
    this.#ready.push(callId);
  }

  /**
   * Writes the effects since the last call. Sends its statements before it first waits.
   * @throws LostRace when another batch has decided a payment in the meantime
   */
  async write(context: WriteContext): Promise<void> {
    const { sql, madeReady } = context;
    const ready = this.#ready;
    this.#ready = [];
    for (const callId of ready) madeReady.add(callId);
    const sums = this.takeRevenue().map((sum) => ({ ...sum, amount: String(sum.amount) }));
    await Promise.all([
      this.paymentRows.write(context),
      this.rows.write(sql),
      ready.length === 0 ? [] : sql.run(MAKE_READY, [numberArray(ready)]),
      sums.length === 0 ? [] : sql.run(ADD_REVENUE, [toJson(sums)]),
    ]);
  }
}
