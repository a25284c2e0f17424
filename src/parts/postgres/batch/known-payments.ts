import type { PaymentIntent, PaymentKey } from "../../../core/payment.ts";
import type { PaymentRow } from "../../../store/payment-row.ts";
import { LostRace } from "../connection/database-errors.ts";
import {
  FIND_PAYMENTS_BY_FINGERPRINT,
  FIND_PAYMENTS_BY_IDENTIFIER,
  identifierColumns,
  keyColumns,
  normalKey,
  PAYMENT_COLUMN_LIST,
} from "../shared-statements.ts";
import { type Sql, statement } from "../sql.ts";

export type KnownRow = PaymentRow & {
  is_watched?: boolean;
  /** Another payment under its identifier did not fail. */
  is_identifier_taken?: boolean;
  /** True if the JobCall of the payment was acked. Read only for a payment by use. */
  has_succeeded?: boolean;
};

// Ordered alike in all batches, so that no two wait for each other. A row is as it was once its lock was had; all that
// is read beside it, as it was before the wait.
const LOCK_PAYMENTS = statement<KnownRow & { readonly state_before: PaymentRow["state"] }>(
  "lock_payments",
  `SELECT ${PAYMENT_COLUMN_LIST},
          (SELECT state FROM jobgate.payments AS before WHERE before.call_id = payments.call_id) AS state_before,
          ceiling IS NOT NULL AND EXISTS (
            SELECT FROM jobgate.finished_calls AS done WHERE done.call_id = payments.call_id AND done.state = 'succeeded')
            AS has_succeeded,
          EXISTS (SELECT FROM jobgate.watched_payments WHERE watched_payments.call_id = payments.call_id) AS is_watched,
          payment_id IS NOT NULL AND EXISTS (
            SELECT FROM jobgate.payments AS other
             WHERE other.payer = payments.payer AND other.payment_id = payments.payment_id AND other.state <> 'failed'
               AND other.call_id <> payments.call_id) AS is_identifier_taken
     FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (network, asset, payer, nonce)
    USING (network, asset, payer, nonce) ORDER BY call_id FOR UPDATE OF payments`,
);

/** Payments that a batch changes or begins again, with what the batch has changed of them so far. */
export class KnownPayments {
  readonly #byKey = new Map<string, KnownRow>();
  readonly #byFingerprint = new Map<string, KnownRow>();
  readonly #byIdentifier = new Map<string, KnownRow>();
  #locked: readonly KnownRow[] = [];

  /**
   * @param keys payments to lock
   * @param intents payments that the batch may begin
   * @throws LostRace when another batch has decided a payment meanwhile: what is read beside it is from before
   */
  async load(sql: Sql, keys: readonly PaymentKey[], intents: readonly PaymentIntent[]): Promise<void> {
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
    this.#locked = locked;
    // The locked rows last: those are the rows that change.
    for (const row of [...alike, ...identified, ...locked]) this.add(row);
  }

  /** Returns the payments that the batch may change. */
  locked(): readonly KnownRow[] {
    return this.#locked;
  }

  add(row: KnownRow): void {
    this.#byKey.set(keyText(row), row);
    this.#byFingerprint.set(row.fingerprint, row);
    if (row.payment_id !== null && row.state !== "failed") this.#byIdentifier.set(identifierText(row), row);
  }

  find(key: PaymentKey): KnownRow | undefined {
    return this.#byKey.get(keyText(normalKey(key)));
  }

  /** Finds the payment that an intent repeats: the very same one, or one that did not fail under its identifier. */
  findRepeated({ key, fingerprint, paymentId }: PaymentIntent): KnownRow | undefined {
    const identifier = { payer: normalKey(key).payer, payment_id: paymentId ?? null };
    return this.find(key) ?? this.#byFingerprint.get(fingerprint) ?? this.#findByIdentifier(identifier);
  }

  /** Checks whether another payment, which did not fail, has the identifier of a failed one. */
  isIdentifierTaken(failed: KnownRow): boolean {
    return failed.is_identifier_taken === true || this.#findByIdentifier(failed) !== undefined;
  }

  #findByIdentifier(identifier: Pick<PaymentRow, "payer" | "payment_id">): KnownRow | undefined {
    if (identifier.payment_id === null) return undefined;
    const row = this.#byIdentifier.get(identifierText(identifier));
    // It may have failed in this batch.
    return row?.state === "failed" ? undefined : row;
  }
}

function keyText({ network, asset, payer, nonce }: PaymentKey | PaymentRow): string {
  return `${network} ${asset} ${payer} ${nonce}`;
}

function identifierText({ payer, payment_id }: Pick<PaymentRow, "payer" | "payment_id">): string {
  return `${payer} ${payment_id}`;
}
