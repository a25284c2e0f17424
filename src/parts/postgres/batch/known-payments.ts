import type { PaymentIntent, PaymentKey } from "../../../core/payment.ts";
import type { PaymentRow } from "../../../store/payment-row.ts";
import { HOLDS_IDENTIFIER, holdsIdentifier } from "../../../store/rules/payments.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement } from "../sql.ts";
import { identifierColumns, keyColumns, normalKey, PAYMENT_COLUMN_LIST } from "./payment-keys.ts";

/** Payment that the batch has locked, with what is known beside it. */
type LockedRow = PaymentRow & {
  readonly state_before: PaymentRow["state"];
  readonly is_watched: boolean;
  /** Another payment holds its identifier. */
  readonly is_identifier_taken: boolean;
  /** True if a runner acked the JobCall of the payment. Read for deferred payments alone. */
  readonly has_succeeded: boolean;
};

const FIND_PAYMENTS_BY_FINGERPRINT = statement<PaymentRow>(
  "find_payments_by_fingerprint",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments WHERE fingerprint = ANY ($1::text[])`,
);

const FIND_PAYMENTS_BY_IDENTIFIER = statement<PaymentRow>(
  "find_payments_by_identifier",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[]) AS asked (payer, payment_id) USING (payer, payment_id)
    WHERE ${HOLDS_IDENTIFIER}`,
);

// Ordered alike in all batches, so that no two wait for each other. A row is as it was once its lock was had; all that
// is read beside it, as it was before the wait.
const LOCK_PAYMENTS = statement<LockedRow>(
  "lock_payments",
  `SELECT ${PAYMENT_COLUMN_LIST},
          (SELECT state FROM jobgate.payments AS before WHERE before.call_id = payments.call_id) AS state_before,
          ceiling IS NOT NULL AND EXISTS (
            SELECT FROM jobgate.finished_calls AS done WHERE done.call_id = payments.call_id AND done.state = 'succeeded')
            AS has_succeeded,
          EXISTS (SELECT FROM jobgate.watched_payments WHERE watched_payments.call_id = payments.call_id) AS is_watched,
          payment_id IS NOT NULL AND EXISTS (
            SELECT FROM jobgate.payments AS other
             WHERE other.payer = payments.payer AND other.payment_id = payments.payment_id AND other.${HOLDS_IDENTIFIER}
               AND other.call_id <> payments.call_id) AS is_identifier_taken
     FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (network, asset, payer, nonce)
    USING (network, asset, payer, nonce) ORDER BY call_id FOR UPDATE OF payments`,
);

/** Payments that a batch changes or begins again, with what the batch has changed of them so far. */
export class KnownPayments {
  readonly #rows = new Map<number, PaymentRow>();
  readonly #byKey = new Map<string, number>();
  readonly #byFingerprint = new Map<string, number>();
  readonly #byIdentifier = new Map<string, number>();

  /**
   * @param keys payments to lock
   * @param intents payments that the batch may begin
   * @returns the payments that the batch may change
   * @throws LostRace when another batch has decided a payment meanwhile: what is read beside it is from before
   */
  async load(
    sql: Sql,
    keys: readonly PaymentKey[],
    intents: readonly PaymentIntent[],
  ): Promise<readonly LockedRow[]> {
    const fingerprints = intents.map(({ fingerprint }) => fingerprint);
    const identifiers = intents.flatMap(({ key, paymentId }) =>
      paymentId === undefined ? [] : { payer: key.payer, id: paymentId },
    );
    const [locked, alike, identified] = await Promise.all([
      sql.run(LOCK_PAYMENTS, keyColumns(keys)),
      fingerprints.length === 0 ? [] : sql.run(FIND_PAYMENTS_BY_FINGERPRINT, [fingerprints]),
      identifiers.length === 0 ? [] : sql.run(FIND_PAYMENTS_BY_IDENTIFIER, identifierColumns(identifiers)),
    ]);
    if (locked.some(({ state, state_before }) => state_before !== state))
      throw new LostRace("a payment was decided meanwhile");
    // The locked rows last: those are the rows that change.
    for (const row of [...alike, ...identified, ...locked]) this.add(row);
    return locked;
  }

  /** Adds a payment, or replaces it. */
  add(row: PaymentRow): void {
    const { call_id: callId } = row;
    this.#rows.set(callId, row);
    this.#byKey.set(keyText(row), callId);
    this.#byFingerprint.set(row.fingerprint, callId);
    if (row.payment_id !== null && holdsIdentifier(row)) this.#byIdentifier.set(identifierText(row), callId);
  }

  get(callId: number | undefined): PaymentRow | undefined {
    return callId === undefined ? undefined : this.#rows.get(callId);
  }

  find(key: PaymentKey): PaymentRow | undefined {
    return this.get(this.#byKey.get(keyText(normalKey(key))));
  }

  /** Finds the payment that an intent repeats: the same payment, or the payment that holds its identifier. */
  findRepeated({ key, fingerprint, paymentId }: PaymentIntent): PaymentRow | undefined {
    const identifier = { payer: normalKey(key).payer, payment_id: paymentId ?? null };
    return (
      this.find(key) ?? this.get(this.#byFingerprint.get(fingerprint)) ?? this.findByIdentifier(identifier)
    );
  }

  /** Finds the payment that holds an identifier. */
  findByIdentifier(identifier: Pick<PaymentRow, "payer" | "payment_id">): PaymentRow | undefined {
    if (identifier.payment_id === null) return undefined;
    const row = this.get(this.#byIdentifier.get(identifierText(identifier)));
    // The payment may have lost its identifier in this batch.
    return row !== undefined && holdsIdentifier(row) ? row : undefined;
  }
}

function keyText({ network, asset, payer, nonce }: PaymentKey | PaymentRow): string {
  return `${network} ${asset} ${payer} ${nonce}`;
}

function identifierText({ payer, payment_id }: Pick<PaymentRow, "payer" | "payment_id">): string {
  return `${payer} ${payment_id}`;
}
