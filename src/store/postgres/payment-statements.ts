import type { PaymentKey } from "../../core/payment.ts";
import { PAYMENT_COLUMNS, type PaymentRow } from "../payment-row.ts";
import { statement } from "./sql.ts";

/** Named one by one: a `*` would break the plans of running replicas when a newer one adds a column. */
export const PAYMENT_COLUMN_LIST = PAYMENT_COLUMNS.map((column) => `payments.${column}`).join(", ");

export const FIND_PAYMENTS_BY_FINGERPRINT = statement<PaymentRow>(
  "find_payments_by_fingerprint",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments WHERE fingerprint = ANY ($1::text[])`,
);

/** The same payment in another letter case is the same payment: keys are written and compared in lower case. */
export function normalKey({ network, asset, payer, nonce }: PaymentKey): PaymentKey {
  return {
    network: network.toLowerCase(),
    asset: asset.toLowerCase(),
    payer: payer.toLowerCase(),
    nonce: nonce.toLowerCase(),
  };
}

/** Parameters of a query by keys. */
export function keyColumns(keys: readonly PaymentKey[]): string[][] {
  const normal = keys.map(normalKey);
  return [
    normal.map(({ network }) => network),
    normal.map(({ asset }) => asset),
    normal.map(({ payer }) => payer),
    normal.map(({ nonce }) => nonce),
  ];
}
