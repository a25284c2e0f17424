import { normalKey, type PaymentIntent, type PaymentKey } from "../../../core/payment.ts";
import type { PaymentRow } from "../../../store/payment-row.ts";
import { HOLDS_NAME, holdsName } from "../../../store/rules/payments.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement } from "../sql.ts";
import { keyColumns, nameColumns, PAYMENT_COLUMN_LIST } from "./payment-keys.ts";

/** Payment that the batch has locked, with further facts about it. */
type LockedRow = PaymentRow & {
  readonly state_before: PaymentRow["state"];
  readonly is_watched: boolean;
  /** True if another payment holds the purchase name of this payment. */
  readonly is_name_taken: boolean;
  /** True if a runner acked the JobCall of the payment. Read only for deferred payments. */
  readonly has_succeeded: boolean;
};

const FIND_PAYMENTS_BY_FINGERPRINT = statement<PaymentRow>(
  "find_payments_by_fingerprint",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments WHERE fingerprint = ANY ($1::text[])`,
);

const FIND_PAYMENTS_BY_PURCHASE_NAME = statement<PaymentRow>(
  "find_payments_by_purchase_name",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[]) AS asked (payer, purchase_name) USING (payer, purchase_name)
    WHERE ${HOLDS_NAME}`,
);

// Ordered alike in all batches, so that no two wait for each other. The locked row is read in its state after the lock was
// obtained. Other rows of the statement are read in their state before the wait.
const LOCK_PAYMENTS = statement<LockedRow>(
  "lock_payments",
  `SELECT ${PAYMENT_COLUMN_LIST},
          (SELECT state FROM jobgate.payments AS before WHERE before.call_id = payments.call_id) AS state_before,
          ceiling IS NOT NULL AND EXISTS (
            SELECT FROM jobgate.finished_calls AS done WHERE done.call_id = payments.call_id AND done.state = 'succeeded')
            AS has_succeeded,
          EXISTS (SELECT FROM jobgate.watched_payments WHERE watched_payments.call_id = payments.call_id) AS is_watched,
          purchase_name IS NOT NULL AND EXISTS (
            SELECT FROM jobgate.payments AS other
             WHERE other.payer = payments.payer AND other.purchase_name = payments.purchase_name AND other.${HOLDS_NAME}
               AND other.call_id <> payments.call_id) AS is_name_taken
     FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (network, asset, payer, nonce)
    USING (network, asset, payer, nonce) ORDER BY call_id FOR UPDATE OF payments`,
);

/** Payments that a batch changes or begins again, with what the batch has changed of them so far. */
export class KnownPayments {
  readonly #rows = new Map<number, PaymentRow>();
  readonly #byKey = new Map<string, number>();
  readonly #byFingerprint = new Map<string, number>();
  readonly #byName = new Map<string, number>();

  /**
   * @param keys payments to lock
   * @param intents payments that the batch may begin
   * @returns the payments that the batch may change
   * @throws LostRace when another batch has decided a payment meanwhile, because the rows that were read with it are
   * then outdated
   */
  async load(
    sql: Sql,
    keys: readonly PaymentKey[],
    intents: readonly PaymentIntent[],
  ): Promise<readonly LockedRow[]> {
    const fingerprints = intents.map(({ fingerprint }) => fingerprint);
    const names = intents.flatMap(({ key, purchaseName }) =>
      purchaseName === undefined ? [] : { payer: key.payer, name: purchaseName },
    );
    const [locked, alike, named] = await Promise.all([
      sql.run(LOCK_PAYMENTS, keyColumns(keys)),
      fingerprints.length === 0 ? [] : sql.run(FIND_PAYMENTS_BY_FINGERPRINT, [fingerprints]),
      names.length === 0 ? [] : sql.run(FIND_PAYMENTS_BY_PURCHASE_NAME, nameColumns(names)),
    ]);
    if (locked.some(({ state, state_before }) => state_before !== state))
      throw new LostRace("a payment was decided meanwhile");
    // The locked rows come last, because they are the rows that change.
    for (const row of [...alike, ...named, ...locked]) this.add(row);
    return locked;
  }

  /** Adds a payment, or replaces it. */
  add(row: PaymentRow): void {
    const { call_id: callId } = row;
    this.#rows.set(callId, row);
    this.#byKey.set(keyText(row), callId);
    this.#byFingerprint.set(row.fingerprint, callId);
    if (row.purchase_name !== null && holdsName(row)) this.#byName.set(nameText(row), callId);
  }

  get(callId: number | undefined): PaymentRow | undefined {
    return callId === undefined ? undefined : this.#rows.get(callId);
  }

  find(key: PaymentKey): PaymentRow | undefined {
    return this.get(this.#byKey.get(keyText(normalKey(key))));
  }

  /** Finds the payment that an intent repeats: the same payment, or the payment that holds its name. */
  findRepeated({ key, fingerprint, purchaseName }: PaymentIntent): PaymentRow | undefined {
    const name = { payer: normalKey(key).payer, purchase_name: purchaseName ?? null };
    return this.find(key) ?? this.get(this.#byFingerprint.get(fingerprint)) ?? this.findByName(name);
  }

  /** Finds the payment that holds a purchase's name. */
  findByName(name: Pick<PaymentRow, "payer" | "purchase_name">): PaymentRow | undefined {
    if (name.purchase_name === null) return undefined;
    const row = this.get(this.#byName.get(nameText(name)));
    // The payment may have lost its name in this batch.
    return row !== undefined && holdsName(row) ? row : undefined;
  }
}

function keyText({ network, asset, payer, nonce }: PaymentKey | PaymentRow): string {
  return `${network} ${asset} ${payer} ${nonce}`;
}

function nameText({ payer, purchase_name }: Pick<PaymentRow, "payer" | "purchase_name">): string {
  return `${payer} ${purchase_name}`;
}
