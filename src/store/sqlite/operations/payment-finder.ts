import { normalKey, oneSpelling, type PaymentKey } from "../../../core/payment.ts";
import type { PaymentRow } from "../../payment-row.ts";
import { HOLDS_NAME } from "../../rules/payments.ts";
import type { Database, Statement } from "../driver.ts";

/** Looks payments up by their unique keys. */
export class PaymentFinder {
  readonly #byKey: Statement<PaymentRow>;
  readonly #byFingerprint: Statement<PaymentRow>;
  readonly #byName: Statement<PaymentRow>;

  constructor(database: Database) {
    this.#byKey = database.prepare(
      "SELECT * FROM payments WHERE network = ? AND asset = ? AND payer = ? AND nonce = ?",
    );
    this.#byFingerprint = database.prepare("SELECT * FROM payments WHERE fingerprint = ?");
    this.#byName = database.prepare(
      `SELECT * FROM payments INDEXED BY payments_by_purchase_name
        WHERE payer = ? AND purchase_name = ? AND ${HOLDS_NAME}`,
    );
  }

  find(key: PaymentKey): PaymentRow | undefined {
    const { network, asset, payer, nonce } = normalKey(key);
    return this.#byKey.get([network, asset, payer, nonce]);
  }

  findByFingerprint(fingerprint: string): PaymentRow | undefined {
    return this.#byFingerprint.get([fingerprint]);
  }

  /** Finds the payment that holds a purchase's name. */
  findByName({ payer, purchase_name }: Pick<PaymentRow, "payer" | "purchase_name">): PaymentRow | undefined {
    return purchase_name === null ? undefined : this.#byName.get([oneSpelling(payer), purchase_name]);
  }
}
