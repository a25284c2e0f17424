import { YOUNG_MS } from "../../contract/payment-journal.ts";
import type { PaymentRows } from "../../machine/effects.ts";
import type { Capacity } from "../../new-call.ts";
import { noncesOf, type SoldPayment } from "../../payment-row.ts";
import { freedNonces } from "../../rules/payments.ts";
import type { Database, Statement } from "../driver.ts";
import { PaymentFinder } from "./payment-finder.ts";
import type { Undecided } from "./undecided.ts";

/** Rows that decisions about payments change. All are written at once, because the next operation may read them. */
export class SqlitePaymentRows implements PaymentRows {
  readonly #capacity: Capacity;
  readonly #undecided: Undecided;
  readonly #finder: PaymentFinder;
  readonly #selectWatched: Statement<unknown>;
  readonly #update: Statement<unknown>;
  readonly #queueCall: Statement<unknown>;
  readonly #deleteHeldCall: Statement<unknown>;
  readonly #insertKeptCall: Statement<unknown>;
  readonly #freeNonce: Statement<unknown>;
  readonly #useNonce: Statement<unknown>;
  readonly #watch: Statement<unknown>;
  readonly #endWatch: Statement<unknown>;

  constructor(database: Database, capacity: Capacity, undecided: Undecided) {
    this.#capacity = capacity;
    this.#undecided = undecided;
    this.#finder = new PaymentFinder(database);
    this.#selectWatched = database.prepare("SELECT 1 FROM watched_payments WHERE call_id = ?");
    this.#update = database.prepare(
      "UPDATE payments SET state = ?, amount = ?, settlement = ?, block_number = ?, reason = ?, closed = ?, purchase_name = ?, updated_at = ? WHERE call_id = ?",
    );
    // The client waits for its job from here on, so this is when it was enqueued.
    this.#queueCall = database.prepare(
      "UPDATE job_calls SET state = 'ready', enqueued_at = ? WHERE call_id = ? AND state = 'held'",
    );
    this.#deleteHeldCall = database.prepare("DELETE FROM job_calls WHERE call_id = ? AND state = 'held'");
    this.#insertKeptCall = database.prepare(
      `INSERT INTO job_calls (call_id, origin, job_id, service_id, state, enqueued_at)
       VALUES (?, 'x402', ?, ?, 'ready', ?)`,
    );
    this.#freeNonce = database.prepare("DELETE FROM one_time_nonces WHERE key = ? AND call_id = ?");
    this.#useNonce = database.prepare(
      `INSERT INTO one_time_nonces (key, expires_at_secs, call_id) VALUES (?, ?, ?)
       ON CONFLICT DO UPDATE SET expires_at_secs = excluded.expires_at_secs, call_id = excluded.call_id
        WHERE one_time_nonces.expires_at_secs * 1000 <= ?`,
    );
    this.#watch = database.prepare("INSERT OR REPLACE INTO watched_payments VALUES (?, ?, ?)");
    this.#endWatch = database.prepare("DELETE FROM watched_payments WHERE call_id = ?");
  }

  isWatched({ call_id }: SoldPayment): boolean {
    return this.#selectWatched.get([call_id]) !== undefined;
  }

  isNameTaken(payment: SoldPayment): boolean {
    return this.#finder.findByName(payment) !== undefined;
  }

  change(payment: SoldPayment, before: SoldPayment): void {
    const { state, amount, settlement, block_number, reason, closed, purchase_name } = payment;
    const decision = [state, amount, settlement, block_number, reason, closed, purchase_name];
    this.#update.run([...decision, payment.updated_at, payment.call_id]);
    const isYoung = before.state === "intent" && payment.updated_at - payment.created_at < YOUNG_MS;
    // A deferred payment never holds a JobCall, which would be counted.
    if (payment.ceiling === null && (!isYoung || state === "unresolved")) this.#undecided.forget();
  }

  queueCall({ call_id }: SoldPayment, at: number): void {
    this.#queueCall.run([at, call_id]);
  }

  keepCall({ call_id }: SoldPayment): void {
    this.#deleteHeldCall.run([call_id]);
    this.#capacity.adjust(-1);
  }

  requeueCall({ call_id, job_index, service_id }: SoldPayment, at: number): void {
    this.#insertKeptCall.run([call_id, String(job_index), service_id, at]);
    this.#capacity.adjust(1);
  }

  freeNonce(payment: SoldPayment): void {
    for (const { key } of freedNonces(payment)) this.#freeNonce.run([key, payment.call_id]);
  }

  useNonce(payment: SoldPayment, at: number): void {
    for (const { key, expiresAt } of noncesOf(payment))
      this.#useNonce.run([key, expiresAt, payment.call_id, at]);
  }

  watch({ call_id, ceiling }: SoldPayment, at: number): void {
    this.#watch.run([call_id, at, ceiling === null ? 0 : 1]);
  }

  endWatch({ call_id }: SoldPayment): void {
    this.#endWatch.run([call_id]);
  }
}
