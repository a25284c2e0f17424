import { type AdoptedPaymentRow, toAdoptedPayment, toAdoptedPaymentRow } from "../../adopted-payment-row.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import { PaymentFinder } from "./payment-finder.ts";

export function adoptionOperations(database: Database): OperationTable<"adoptPayment"> {
  const payments = new PaymentFinder(database);
  const insert = database.prepare(
    `INSERT INTO adopted_payments (payer, nonce, network, asset, adopted, adopted_at) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT DO NOTHING`,
  );
  return {
    adoptPayment(now, payment) {
      const known = payments.find(payment.key);
      if (known !== undefined) return { kind: "payment_known", callId: known.call_id };
      const { payer, nonce, network, asset, adopted } = toAdoptedPaymentRow(payment);
      const { changes } = insert.run([payer, nonce, network, asset, adopted, now]);
      return { kind: "adopted", changed: changes > 0 };
    },
  };
}

export function adoptionLookups(database: Database): OperationTable<"findAdoptedPayments"> {
  const select = database.prepare<AdoptedPaymentRow>(
    "SELECT payer, nonce, network, asset, adopted FROM adopted_payments WHERE payer = ? AND nonce = ?",
  );
  return {
    findAdoptedPayments: (_now, { payer, nonce }) => select.all([payer, nonce]).map(toAdoptedPayment),
  };
}
