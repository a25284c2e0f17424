import { normalKey, oneSpelling, type PaymentIntent, type PaymentKey } from "../../../core/payment.ts";
import { YOUNG_MS } from "../../contract/payment-journal.ts";
import type { PaymentRows } from "../../machine/effects.ts";
import type { Capacity } from "../../new-call.ts";
import { countOfPayer, countOld, countUnresolved, selectOpen } from "../../payment-queries.ts";
import { noncesOf, type PaymentRow, type SoldPayment } from "../../payment-row.ts";
import { freedNonces, HOLDS_NAME } from "../../rules/payments.ts";
import type { Database, Statement } from "../driver.ts";
import { DIALECT } from "./modules.ts";

/** Finds payments by their unique keys. */
export class PaymentFinder {
  readonly #byKey: Statement<PaymentRow>;
  readonly #byFingerprint: Statement<PaymentRow>;
  readonly #byName: Statement<PaymentRow>;
  readonly #placesOfKnown: Statement<{ places: string }>;
  /** Intents that repeat neither a payment nor an earlier intent. */
  #new: ReadonlySet<PaymentIntent> = new Set();

  constructor(database: Database) {
    this.#byKey = database.prepare(
      "SELECT * FROM payments WHERE network = ? AND asset = ? AND payer = ? AND nonce = ?",
    );
    this.#byFingerprint = database.prepare("SELECT * FROM payments WHERE fingerprint = ?");
    this.#byName = database.prepare(
      `SELECT * FROM payments INDEXED BY payments_by_purchase_name
        WHERE payer = ? AND purchase_name = ? AND ${HOLDS_NAME}`,
    );
    this.#placesOfKnown = database.prepare(
      `SELECT json_group_array(intent.key) AS places FROM json_each(?) AS intent
        WHERE EXISTS (SELECT 1 FROM payments WHERE fingerprint = intent.value ->> 0)
           OR EXISTS (SELECT 1 FROM payments WHERE network = intent.value ->> 1 AND asset = intent.value ->> 2
                         AND payer = intent.value ->> 3 AND nonce = intent.value ->> 4)`,
    );
  }

  /**
   * Determines with few queries which intents belong to new payments, as most do. Querying for each intent takes ten times
   * as long.
   */
  readNew(intents: readonly PaymentIntent[]): void {
    const keys = intents.map(({ fingerprint, key }) => {
      const { network, asset, payer, nonce } = normalKey(key);
      return [fingerprint, network, asset, payer, nonce];
    });
    const known = new Set<number>(JSON.parse(this.#placesOfKnown.get([JSON.stringify(keys)])?.places ?? ""));
    const before = new Set<string>();
    this.#new = new Set(
      intents.filter((_, place) => {
        const [fingerprint = "", ...key] = keys[place] ?? [];
        const text = key.join(" ");
        const isNew = !known.has(place) && !before.has(fingerprint) && !before.has(text);
        before.add(fingerprint).add(text);
        return isNew;
      }),
    );
  }

  /** Finds the payment that an intent repeats, or the payment that holds its name. */
  findRepeated(intent: PaymentIntent): PaymentRow | undefined {
    const { key, fingerprint, purchaseName } = intent;
    return (
      (this.#new.has(intent) ? undefined : (this.find(key) ?? this.#byFingerprint.get([fingerprint]))) ??
      this.findByName({ payer: key.payer, purchase_name: purchaseName ?? null })
    );
  }

  find(key: PaymentKey): PaymentRow | undefined {
    const { network, asset, payer, nonce } = normalKey(key);
    return this.#byKey.get([network, asset, payer, nonce]);
  }

  /** Finds the payment that holds a purchase's name. */
  findByName({ payer, purchase_name }: Pick<PaymentRow, "payer" | "purchase_name">): PaymentRow | undefined {
    return purchase_name === null ? undefined : this.#byName.get([oneSpelling(payer), purchase_name]);
  }
}

type Count = { n: number };

/** Counting every undecided payment for each batch would cost more than the batch. */
const RECOUNT_EVERY_MS = 1_000;

/**
 * Counts of payments that do not occupy a place in the queue: unresolved payments, and undecided payments that are no longer
 * young.
 */
export class Undecided {
  readonly #capacity: Capacity;
  readonly #countOld: Statement<Count>;
  readonly #countUnresolved: Statement<Count>;
  readonly #countOfPayer: Statement<Count>;
  readonly #selectOpen: Statement<{ amount: string }>;
  #total = 0;
  #countedAt: number | undefined;

  constructor(database: Database, capacity: Capacity) {
    this.#capacity = capacity;
    this.#countOld = database.prepare(countOld(DIALECT, "?1"));
    this.#countUnresolved = database.prepare(countUnresolved(DIALECT));
    this.#countOfPayer = database.prepare(countOfPayer(DIALECT, { payer: "?1", now: "?2", limit: "?3" }));
    const condition = "network = ?1 AND asset = ?2 AND payer = ?3";
    this.#selectOpen = database.prepare(selectOpen(DIALECT, { columns: "amount", condition, since: "?4" }));
  }

  /** Undecided payments that are no longer young, as of the last count. */
  get total(): number {
    return this.#total;
  }

  /** Counts a payer's undecided payments that are no longer young, and their open deferred payments, up to `limit`. */
  ofPayer(payer: string, now: number, limit: number): number {
    return this.#countOfPayer.get([oneSpelling(payer), now, limit])?.n ?? 0;
  }

  /**
   * Sums the amounts of a payer's payments in one token: of open deferred payments, whose number {@link ofPayer} bounds, and
   * of payments that were settled since a time.
   */
  openUnits(key: PaymentKey, settledSince: number): bigint {
    const { network, asset, payer } = normalKey(key);
    return this.#selectOpen
      .all([network, asset, payer, settledSince])
      .reduce((sum, { amount }) => sum + BigInt(amount), 0n);
  }

  /** Counts again if the last count is too old, or a decision has changed it since. */
  recount(now: number): void {
    const last = this.#countedAt;
    if (last !== undefined && now >= last && now - last < RECOUNT_EVERY_MS) return;
    this.#total = this.#countOld.get([now])?.n ?? 0;
    this.#capacity.setUncounted(this.#total + (this.#countUnresolved.get([])?.n ?? 0));
    this.#countedAt = now;
  }

  /** Makes the next batch recount. */
  forget(): void {
    this.#countedAt = undefined;
  }
}

/** Rows that decisions about payments change. All rows are written at once, because the next operation may read them. */
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
  readonly #dropBody: Statement<unknown>;
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
    // The client waits for its job from now on, so the JobCall's enqueue time is set to now.
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
    this.#dropBody = database.prepare("DELETE FROM job_bodies WHERE call_id = ?");
    this.#watch = database.prepare("INSERT OR REPLACE INTO watched_payments VALUES (?, ?, ?, ?)");
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
    // A deferred payment never holds a JobCall, so there is none to count.
    if (payment.ceiling === null && (!isYoung || state === "unresolved")) this.#undecided.forget();
  }

  queueCall({ call_id }: SoldPayment, at: number): void {
    this.#queueCall.run([at, call_id]);
  }

  keepCall({ call_id }: SoldPayment): void {
    this.#deleteHeldCall.run([call_id]);
    this.#capacity.adjust(-1);
  }

  dropCall(payment: SoldPayment): void {
    this.keepCall(payment);
    this.#dropBody.run([payment.call_id]);
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
    this.#watch.run([call_id, at, ceiling === null ? 0 : 1, 0]);
  }

  watchUntilFinal({ call_id, ceiling }: SoldPayment, at: number): void {
    this.#watch.run([call_id, at, ceiling === null ? 0 : 1, 1]);
  }

  endWatch({ call_id }: SoldPayment): void {
    this.#endWatch.run([call_id]);
  }
}
