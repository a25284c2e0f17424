import type { JobCallOrigin } from "../../../core/job-call.ts";
import type { PurchaseNotes } from "../../../core/payment.ts";
import { Effects } from "../../machine/effects.ts";
import { keysOfCall } from "../../modules/modules.ts";
import { notesOf, SOLD_COLUMNS, type SoldPayment } from "../../payment-row.ts";
import { type Database, prepareRows, type Statement } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { SqliteRows } from "./modules.ts";
import type { NewCalls } from "./new-calls.ts";
import type { SqlitePaymentRows } from "./payment-rows.ts";

/**
 * Divisor that splits an amount into two parts, because amounts can reach 2^64 - 1 and SQLite's sums are limited to 2^63 -
 * 1.
 */
const LOW_PART = 10n ** 9n;

/** Columns of a JobCall that describe its payment. */
interface PaidColumns {
  readonly call_id: number;
  readonly origin: JobCallOrigin;
  readonly ceiling: string | null;
  readonly order_key: string | null;
}

/**
 * Effects in an SQLite file. Rows are written at once, because the next operation may read them. Sums are written at the end
 * of the batch.
 */
export class SqliteEffects extends Effects {
  readonly rows: SqliteRows;
  protected readonly paymentRows: SqlitePaymentRows;
  readonly #locks: Locks;
  readonly #selectPayments: (parameters: readonly [json: string]) => SoldPayment[];
  readonly #selectNotes: Statement<{ call_id: number; notes: string }>;
  readonly #selectSucceeded: Statement<unknown>;
  readonly #addRevenue: Statement<unknown>;
  readonly #newCalls: NewCalls;
  readonly #makeReady: Statement<unknown>;
  readonly #selectWaiting: (parameters: readonly [json: string]) => { order_key: string; call_id: number }[];
  /** JobCalls that became ready. They are written as ready before the next claim. */
  #ready: number[] = [];
  /** JobCalls that claims of the batch made ready. As in Postgres, no claim of the batch takes them. */
  #readyLater: number[] = [];
  #isClaiming = false;
  #madeReady = false;
  /** First waiting JobCall of each key of the JobCalls that end in this operation. */
  #waiting: ReadonlyMap<string, number | null> = new Map();
  /** Deferred payments of the JobCalls that end in this operation. */
  readonly #payments = new Map<number, SoldPayment>();
  /** Notes of the JobCalls that end in this operation; undefined if they were not read together. */
  #notes: ReadonlyMap<number, string> | undefined;

  constructor(
    database: Database,
    {
      paymentRows,
      rows,
      locks,
      newCalls,
    }: Pick<SqliteEffects, "rows"> & { paymentRows: SqlitePaymentRows; locks: Locks; newCalls: NewCalls },
  ) {
    super();
    this.paymentRows = paymentRows;
    this.rows = rows;
    this.#locks = locks;
    this.#newCalls = newCalls;
    this.#makeReady = database.prepare(
      "UPDATE job_calls SET state = 'ready' WHERE call_id IN (SELECT value FROM json_each(?)) AND state = 'held'",
    );
    this.#selectWaiting = prepareRows(
      database,
      ["order_key", "call_id"],
      `FROM (SELECT value AS order_key, (SELECT min(call_id) FROM job_calls INDEXED BY job_calls_ordered
                                          WHERE state = 'held' AND order_key = value) AS call_id FROM json_each(?))
        WHERE call_id IS NOT NULL`,
    );
    this.#selectPayments = prepareRows<SoldPayment>(
      database,
      SOLD_COLUMNS,
      "FROM payments WHERE call_id IN (SELECT value FROM json_each(?))",
    );
    this.#selectNotes = database.prepare(
      `SELECT call_id, notes FROM payments
        WHERE call_id IN (SELECT value FROM json_each(?)) AND notes IS NOT NULL`,
    );
    this.#selectSucceeded = database.prepare(
      "SELECT 1 FROM finished_calls WHERE call_id = ? AND state = 'succeeded'",
    );
    this.#addRevenue = database.prepare(
      `INSERT INTO revenue_hours (hour, network, asset, symbol, high, low, payments) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (hour, network, asset, symbol) DO UPDATE
         SET high = high + excluded.high, low = low + excluded.low, payments = payments + excluded.payments`,
    );
  }

  /**
   * Reads together the rows that reactions to acks of JobCalls need: rows of modules, deferred payments, and the notes of
   * all payments.
   */
  readPayments(calls: readonly PaidColumns[]): void {
    const paid = calls.filter(({ origin }) => origin === "x402");
    this.rows.load(paid.flatMap(({ call_id }) => keysOfCall(call_id)));
    const orderKeys = calls.flatMap(({ order_key }) => order_key ?? []);
    if (orderKeys.length > 0) {
      this.rows.loadKeys(orderKeys);
      this.#waiting = this.#readWaiting(orderKeys);
    }
    this.#notes = this.#readNotes(paid);
    const deferred = paid.flatMap(({ call_id, ceiling }) => (ceiling === null ? [] : call_id));
    if (deferred.length === 0) return;
    for (const row of this.#selectPayments([JSON.stringify(deferred)])) this.#payments.set(row.call_id, row);
  }

  #readWaiting(orderKeys: readonly string[]): Map<string, number | null> {
    const waiting = new Map<string, number | null>(orderKeys.map((orderKey) => [orderKey, null]));
    for (const { order_key, call_id } of this.#selectWaiting([JSON.stringify(orderKeys)]))
      waiting.set(order_key, call_id);
    return waiting;
  }

  firstWaiting(orderKey: string): number | undefined {
    let found = this.#waiting.get(orderKey);
    if (found === undefined) {
      this.writeReady();
      found = this.#readWaiting([orderKey]).get(orderKey);
    }
    return found ?? this.#newCalls.firstWaiting(orderKey);
  }

  /** Discards the rows that {@link readPayments} read. */
  forgetPayments(): void {
    this.#waiting = new Map();
    this.#payments.clear();
    this.#notes = undefined;
    this.rows.unload();
  }

  payment(callId: number): SoldPayment | undefined {
    return this.#payments.get(callId) ?? this.#selectPayments([JSON.stringify([callId])])[0];
  }

  notes(callId: number): PurchaseNotes | undefined {
    return notesOf((this.#notes ?? this.#readNotes([{ call_id: callId }])).get(callId) ?? null);
  }

  #readNotes(calls: readonly Pick<PaidColumns, "call_id">[]): ReadonlyMap<number, string> {
    if (calls.length === 0) return new Map();
    const rows = this.#selectNotes.all([JSON.stringify(calls.map(({ call_id }) => call_id))]);
    return new Map(rows.map(({ call_id, notes }) => [call_id, notes]));
  }

  protected hadSucceeded(callId: number): boolean {
    return this.#selectSucceeded.get([callId]) !== undefined;
  }

  isHeld(lock: string, owner: string, now: number): boolean {
    return this.#locks.isHeld(lock, owner, now);
  }

  freesPlace(): void {
    this.#madeReady = true;
  }

  protected makeReady(callId: number): void {
    this.#madeReady = true;
    if (this.#isClaiming) this.#readyLater.push(callId);
    else if (!this.#newCalls.setState(callId, "ready")) this.#ready.push(callId);
  }

  /** Writes the JobCalls that are ready, so that claims find them. */
  writeReady(): void {
    if (this.#ready.length === 0) return;
    this.#makeReady.run([JSON.stringify(this.#ready)]);
    this.#ready = [];
  }

  /** Runs a claim, or the expiry of leases and delays. */
  claiming<Outcome>(run: () => Outcome): Outcome {
    this.writeReady();
    this.#isClaiming = true;
    try {
      return run();
    } finally {
      this.#isClaiming = false;
    }
  }

  /** Returns true if JobCalls that an order or a limit withheld became claimable since the last call. */
  takeMadeReady(): boolean {
    const madeReady = this.#madeReady;
    this.#madeReady = false;
    return madeReady;
  }

  /** Writes the sums, and the rows that claims left for the end of the batch. */
  write(): void {
    this.#ready.push(...this.#readyLater);
    this.#readyLater = [];
    this.writeReady();
    this.rows.writeCounts();
    for (const { hour, network, asset, symbol, amount, payments } of this.takeRevenue()) {
      const parts = [Number(amount / LOW_PART), Number(amount % LOW_PART)];
      this.#addRevenue.run([hour, network, asset, symbol, ...parts, payments]);
    }
  }

  /** Discards everything that the batch has read and not written, because the batch is rolled back. */
  discard(): void {
    this.takeRevenue();
    this.takeMadeReady();
    this.#ready = [];
    this.#readyLater = [];
    this.rows.discard();
    this.forgetPayments();
  }
}

/** A lock of background services, which one process holds until its end. */
interface HeldLock {
  readonly owner: string;
  /** Unix milliseconds. */
  readonly heldUntil: number;
}

/** Locks of background services, in memory. One file belongs to one process, so a lock ends with the process. */
export class Locks implements OperationTable<"holdLock"> {
  readonly #locks = new Map<string, HeldLock>();

  /** Takes or renews a lock. An expired lock can be renewed if no other process has taken it. */
  holdLock(now: number, name: string, owner: string, forMs: number): boolean {
    const lock = this.#locks.get(name);
    if (lock !== undefined && lock.owner !== owner && lock.heldUntil > now) return false;
    this.#locks.set(name, { owner, heldUntil: now + forMs });
    return true;
  }

  isHeld(name: string, owner: string, now: number): boolean {
    const lock = this.#locks.get(name);
    return lock?.owner === owner && lock.heldUntil > now;
  }
}
