import type { PaymentIntent, PaymentKey } from "../../../core/payment.ts";
import type { PaymentRows } from "../../../store/machine/effects.ts";
import type { Capacity } from "../../../store/new-call.ts";
import { noncesOf, type SoldPayment } from "../../../store/payment-row.ts";
import { freedNonces } from "../../../store/rules/payments.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement, toJson } from "../sql.ts";
import { KnownPayments } from "./known-payments.ts";
import { OneTimeNonces } from "./one-time-nonces.ts";

const DECIDE_PAYMENTS = statement<{ call_id: number }>(
  "decide_payments",
  `UPDATE jobgate.payments AS payment
      SET state = new.state, amount = new.amount, settlement = new.settlement, block_number = new.block_number, reason = new.reason,
          closed = new.closed, purchase_name = new.purchase_name, updated_at = new.updated_at
     FROM json_array_elements($1::json) AS decision
    CROSS JOIN LATERAL json_populate_record(NULL::jobgate.payments, decision) AS new
    WHERE payment.call_id = new.call_id AND payment.state = decision ->> 'state_before' RETURNING payment.call_id`,
);
// The client waits for its job from now on, so the JobCall's enqueue time is set to now.
const RELEASE_HELD_CALLS = statement(
  "release_held_calls",
  `UPDATE jobgate.job_calls SET state = 'ready', enqueued_at = $2
    WHERE call_id = ANY ($1::bigint[]) AND state = 'held'`,
);
// Keeps the bodies.
const DROP_HELD_CALLS = statement(
  "drop_held_calls",
  "DELETE FROM jobgate.job_calls WHERE call_id = ANY ($1::bigint[]) AND state = 'held'",
);
export const DROP_BODIES = statement(
  "drop_bodies",
  "DELETE FROM jobgate.job_bodies WHERE call_id = ANY ($1::bigint[])",
);
const REQUEUE_KEPT_CALLS = statement(
  "requeue_kept_calls",
  `INSERT INTO jobgate.job_calls (call_id, origin, job_id, service_id, state, enqueued_at)
   SELECT call_id, 'x402', job_index::text, service_id, 'ready', $2 FROM jobgate.payments WHERE call_id = ANY ($1::bigint[])`,
);
const BEGIN_WATCHES = statement(
  "begin_watches",
  `INSERT INTO jobgate.watched_payments
   SELECT call_id, $2, ceiling IS NOT NULL, call_id = ANY ($3::bigint[]) FROM jobgate.payments WHERE call_id = ANY ($1::bigint[])
   ON CONFLICT (call_id) DO UPDATE SET since = excluded.since, is_early = excluded.is_early`,
);
export const END_WATCHES = statement<{ call_id: number }>(
  "end_watches",
  "DELETE FROM jobgate.watched_payments WHERE call_id = ANY ($1::bigint[]) RETURNING call_id",
);

/** Connection and state of the batch that writes the rows. */
export interface WriteContext {
  readonly sql: Sql;
  readonly now: number;
  readonly capacity: Capacity;
  /** JobCalls that the batch made ready. */
  readonly madeReady: Set<number>;
}

/** Payments of a batch, and the rows that decisions about them change. */
export class PostgresPaymentRows implements PaymentRows {
  readonly known = new KnownPayments();
  readonly nonces = new OneTimeNonces();
  /** Payments that were read and not locked. */
  readonly #sold = new Map<number, SoldPayment>();
  readonly #watched = new Set<number>();
  readonly #takenNames = new Set<number>();
  /** State in the database of each payment that is to be written. */
  readonly #changed = new Map<number, SoldPayment["state"]>();
  readonly #queuedCalls = new Set<number>();
  readonly #keptCalls = new Set<number>();
  readonly #droppedBodies = new Set<number>();
  readonly #requeuedCalls = new Set<number>();
  readonly #begunWatches = new Set<number>();
  /** The {@link #begunWatches} that last until a payment is final. */
  readonly #early = new Set<number>();
  readonly #endedWatches = new Set<number>();

  /**
   * Locks payments by key, and reads the payments that an intent may repeat.
   * @returns the deferred payments whose JobCall was acked
   */
  async load(
    sql: Sql,
    keys: readonly PaymentKey[],
    intents: readonly PaymentIntent[],
  ): Promise<readonly number[]> {
    const locked = await this.known.load(sql, keys, intents);
    for (const { call_id, is_watched, is_name_taken } of locked) {
      if (is_watched) this.#watched.add(call_id);
      if (is_name_taken) this.#takenNames.add(call_id);
    }
    return locked.flatMap(({ call_id, has_succeeded }) => (has_succeeded ? call_id : []));
  }

  get(callId: number): SoldPayment | undefined {
    return this.known.get(callId) ?? this.#sold.get(callId);
  }

  use(row: SoldPayment): void {
    this.#sold.set(row.call_id, row);
  }

  isWatched({ call_id }: SoldPayment): boolean {
    return this.#watched.has(call_id);
  }

  isNameTaken(payment: SoldPayment): boolean {
    return this.#takenNames.has(payment.call_id) || this.known.findByName(payment) !== undefined;
  }

  change(payment: SoldPayment, before: SoldPayment): void {
    const { call_id } = payment;
    if (!this.#changed.has(call_id)) this.#changed.set(call_id, before.state);
    const row = this.known.get(call_id);
    if (row === undefined) this.#sold.set(call_id, payment);
    else this.known.add({ ...row, ...payment });
  }

  queueCall({ call_id }: SoldPayment): void {
    this.#queuedCalls.add(call_id);
  }

  keepCall({ call_id }: SoldPayment): void {
    this.#keptCalls.add(call_id);
  }

  dropCall(payment: SoldPayment): void {
    this.keepCall(payment);
    this.#droppedBodies.add(payment.call_id);
  }

  requeueCall({ call_id }: SoldPayment): void {
    this.#requeuedCalls.add(call_id);
  }

  freeNonce(payment: SoldPayment): void {
    for (const nonce of freedNonces(payment)) this.nonces.free(nonce, payment.call_id);
  }

  useNonce(payment: SoldPayment, at: number): void {
    for (const nonce of noncesOf(payment)) this.nonces.useAgain(nonce, payment.call_id, at);
  }

  watch({ call_id }: SoldPayment): void {
    this.#watched.add(call_id);
    this.#begunWatches.add(call_id);
  }

  watchUntilFinal(payment: SoldPayment): void {
    this.watch(payment);
    this.#early.add(payment.call_id);
  }

  endWatch({ call_id }: SoldPayment): void {
    this.#early.delete(call_id);
    this.#watched.delete(call_id);
    // The payment was begun in this batch and is not written yet.
    if (!this.#begunWatches.delete(call_id)) this.#endedWatches.add(call_id);
  }

  /**
   * Writes the decisions since the last call. Sends its statements before it first waits.
   * @throws LostRace when another batch has decided a payment or ended its watch in the meantime, because its JobCall may be
   *   gone
   */
  async write({ sql, now, capacity, madeReady }: WriteContext): Promise<void> {
    const changed = [...this.#changed].flatMap(([callId, state]) => decisionOf(this.get(callId), state));
    this.#changed.clear();
    const queued = taken(this.#queuedCalls);
    const kept = taken(this.#keptCalls);
    const dropped = taken(this.#droppedBodies);
    const requeued = taken(this.#requeuedCalls);
    const ended = taken(this.#endedWatches);
    const begun = taken(this.#begunWatches);
    const early = taken(this.#early);
    for (const callId of [...queued, ...requeued]) madeReady.add(callId);
    capacity.adjust(requeued.length - kept.length);
    const [decided, unwatched] = await Promise.all([
      changed.length === 0 ? [] : sql.run(DECIDE_PAYMENTS, [toJson(changed)]),
      ended.length === 0 ? [] : sql.run(END_WATCHES, [ended]),
      begun.length === 0 ? [] : sql.run(BEGIN_WATCHES, [begun, now, early]),
      queued.length === 0 ? [] : sql.run(RELEASE_HELD_CALLS, [queued, now]),
      kept.length === 0 ? [] : sql.run(DROP_HELD_CALLS, [kept]),
      dropped.length === 0 ? [] : sql.run(DROP_BODIES, [dropped]),
      requeued.length === 0 ? [] : sql.run(REQUEUE_KEPT_CALLS, [requeued, now]),
    ]);
    if (decided.length !== changed.length) throw new LostRace("a payment was decided meanwhile");
    if (unwatched.length !== ended.length) throw new LostRace("a payment's watch was ended meanwhile");
  }
}

/** Columns that a decision writes. @param state_before the payment's state in the database */
function decisionOf(payment: SoldPayment | undefined, state_before: SoldPayment["state"]): object[] {
  if (payment === undefined) return [];
  const { call_id, state, amount, settlement, block_number, reason, closed, purchase_name, updated_at } =
    payment;
  const changed = { state, amount, settlement, block_number, reason, closed, purchase_name };
  return [{ call_id, state_before, ...changed, updated_at }];
}

function taken(callIds: Set<number>): number[] {
  const all = [...callIds];
  callIds.clear();
  return all;
}
