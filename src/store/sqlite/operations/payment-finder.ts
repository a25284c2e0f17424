import type { PaymentKey } from "../../../core/payment.ts";
import type { PaymentRow } from "../../payment-row.ts";
import { HOLDS_IDENTIFIER } from "../../rules/payments.ts";
import type { Database, Statement } from "../driver.ts";

/** Looks payments up by their unique keys. */
export class PaymentFinder {
  readonly #byKey: Statement<PaymentRow>;
  readonly #byFingerprint: Statement<PaymentRow>;
  readonly #byIdentifier: Statement<PaymentRow>;

  constructor(database: Database) {
    this.#byKey = database.prepare(
      "SELECT * FROM payments WHERE network = ? AND asset = ? AND payer = ? AND nonce = ?",
    );
    this.#byFingerprint = database.prepare("SELECT * FROM payments WHERE fingerprint = ?");
    this.#byIdentifier = database.prepare(
      `SELECT * FROM payments INDEXED BY payments_by_identifier
        WHERE payer = ? AND payment_id = ? AND ${HOLDS_IDENTIFIER}`,
    );
  }

  find({ network, asset, payer, nonce }: PaymentKey): PaymentRow | undefined {
    return this.#byKey.get([network, asset, payer, nonce]);
  }

  findByFingerprint(fingerprint: string): PaymentRow | undefined {
    return this.#byFingerprint.get([fingerprint]);
  }

  /** Finds the payment that holds an identifier. */
  findByIdentifier({ payer, payment_id }: Pick<PaymentRow, "payer" | "payment_id">): PaymentRow | undefined {
    return payment_id === null ? undefined : this.#byIdentifier.get([payer, payment_id]);
  }
}
