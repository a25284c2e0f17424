import type { JobCallOrigin } from "../../../core/job-call.ts";
import { type EndpointRow, NEW_CALLBACK_COLUMNS, type NewCallbackRow } from "../../callback-row.ts";
import { Effects } from "../../machine/effects.ts";
import { MOVEMENT_COLUMNS, type NewMovementRow } from "../../movement-row.ts";
import { SOLD_COLUMNS, type SoldPayment } from "../../payment-row.ts";
import { CHANGED_REFUND_COLUMNS, REFUND_COLUMNS, type RefundRow } from "../../refund-row.ts";
import { type Database, prepareInsert, prepareRows, type Statement } from "../driver.ts";
import type { SqlitePaymentRows } from "./payment-rows.ts";

/** Divides an amount into two parts: amounts go up to 2^64 - 1, and SQLite's sums end at 2^63 - 1. */
const LOW_PART = 10n ** 9n;

/** Columns of a JobCall that say how it is paid. */
interface PaidColumns {
  readonly call_id: number;
  readonly origin: JobCallOrigin;
  readonly ceiling: string | null;
}

/** Effects in one file. Rows that the next operation may read are written at once, rows that are only added at the end. */
export class SqliteEffects extends Effects {
  protected readonly paymentRows: SqlitePaymentRows;
  readonly #selectPayments: (parameters: readonly [json: string]) => SoldPayment[];
  readonly #selectBuyersUrls: Statement<{ call_id: number; callback_url: string }>;
  readonly #selectRefund: Statement<RefundRow>;
  readonly #selectAccount: Statement<{ account: string | null }>;
  readonly #selectSucceeded: Statement<unknown>;
  readonly #selectEndpoints: Statement<EndpointRow>;
  readonly #upsertRefund: (row: RefundRow) => void;
  readonly #insertMovement: (row: NewMovementRow) => void;
  readonly #insertCallback: (row: NewCallbackRow) => void;
  readonly #addRevenue: Statement<unknown>;
  /** Payments by use of the JobCalls that end now. */
  readonly #payments = new Map<number, SoldPayment>();
  /** URLs of the buyers of JobCalls that end now. Undefined: not read together. */
  #buyersUrls: ReadonlyMap<number, string> | undefined;
  /** Undefined: not read since they may have changed. */
  #endpoints: readonly EndpointRow[] | undefined;

  constructor(database: Database, paymentRows: SqlitePaymentRows) {
    super();
    this.paymentRows = paymentRows;
    this.#selectPayments = prepareRows<SoldPayment>(
      database,
      SOLD_COLUMNS,
      "FROM payments WHERE call_id IN (SELECT value FROM json_each(?))",
    );
    this.#selectBuyersUrls = database.prepare(
      `SELECT call_id, callback_url FROM payments
        WHERE call_id IN (SELECT value FROM json_each(?)) AND callback_url IS NOT NULL`,
    );
    this.#selectRefund = database.prepare(`SELECT ${REFUND_COLUMNS.join()} FROM refunds WHERE call_id = ?`);
    this.#selectAccount = database.prepare(
      "SELECT account FROM settler_transactions WHERE network = ? || '/refunds' AND reference = ?",
    );
    this.#selectSucceeded = database.prepare(
      "SELECT 1 FROM finished_calls WHERE call_id = ? AND state = 'succeeded'",
    );
    this.#selectEndpoints = database.prepare("SELECT url, host, events FROM callback_endpoints");
    this.#upsertRefund = prepareInsert(
      database,
      "refunds",
      REFUND_COLUMNS,
      `ON CONFLICT (call_id) DO UPDATE
         SET ${CHANGED_REFUND_COLUMNS.map((column) => `${column} = excluded.${column}`).join()}`,
    );
    this.#insertMovement = prepareInsert(database, "movements", MOVEMENT_COLUMNS);
    this.#insertCallback = prepareInsert(
      database,
      "callbacks",
      NEW_CALLBACK_COLUMNS,
      "ON CONFLICT DO NOTHING",
    );
    this.#addRevenue = database.prepare(
      `INSERT INTO revenue_hours (hour, network, asset, symbol, high, low, payments) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (hour, network, asset, symbol) DO UPDATE
         SET high = high + excluded.high, low = low + excluded.low, payments = payments + excluded.payments`,
    );
  }

  /** Reads together what reactions to the acks of JobCalls need: payments by use, and of other payments the buyer's URL. */
  readPayments(calls: readonly PaidColumns[]): void {
    const paid = calls.filter(({ origin }) => origin === "x402");
    this.#buyersUrls = this.#readBuyersUrls(paid);
    const byUse = paid.flatMap(({ call_id, ceiling }) => (ceiling === null ? [] : call_id));
    if (byUse.length === 0) return;
    for (const row of this.#selectPayments([JSON.stringify(byUse)])) this.#payments.set(row.call_id, row);
  }

  /** Forgets what {@link readPayments} read. */
  forgetPayments(): void {
    this.#payments.clear();
    this.#buyersUrls = undefined;
  }

  payment(callId: number): SoldPayment | undefined {
    return this.#payments.get(callId) ?? this.#selectPayments([JSON.stringify([callId])])[0];
  }

  buyersUrl(callId: number): string | null {
    return (this.#buyersUrls ?? this.#readBuyersUrls([{ call_id: callId }])).get(callId) ?? null;
  }

  #readBuyersUrls(calls: readonly Pick<PaidColumns, "call_id">[]): ReadonlyMap<number, string> {
    if (calls.length === 0) return new Map();
    const rows = this.#selectBuyersUrls.all([JSON.stringify(calls.map(({ call_id }) => call_id))]);
    return new Map(rows.map(({ call_id, callback_url }) => [call_id, callback_url]));
  }

  refund(callId: number): RefundRow | undefined {
    return this.#selectRefund.get([callId]);
  }

  refundAccount({ network, reference }: RefundRow): string | null {
    return this.#selectAccount.get([network, reference])?.account ?? null;
  }

  hasSucceeded(callId: number): boolean {
    return this.#selectSucceeded.get([callId]) !== undefined;
  }

  endpoints(): readonly EndpointRow[] {
    this.#endpoints ??= this.#selectEndpoints.all([]);
    return this.#endpoints;
  }

  forgetEndpoints(): void {
    this.#endpoints = undefined;
  }

  /** Writes the rows that are only added. */
  write(): void {
    const { movements, callbacks, revenue } = this.takeAdded();
    for (const row of movements) this.#insertMovement(row);
    for (const row of callbacks) this.#insertCallback(row);
    for (const { hour, network, asset, symbol, amount, payments } of revenue) {
      const parts = [Number(amount / LOW_PART), Number(amount % LOW_PART)];
      this.#addRevenue.run([hour, network, asset, symbol, ...parts, payments]);
    }
  }

  /** Forgets all that the batch has read and not written: it is rolled back. */
  discard(): void {
    this.takeAdded();
    this.forgetPayments();
    this.forgetEndpoints();
  }

  protected changeRefund(refund: RefundRow): void {
    this.#upsertRefund(refund);
  }
}
