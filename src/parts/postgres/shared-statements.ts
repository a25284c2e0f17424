import type { PaymentIdentifier, PaymentKey } from "../../core/payment.ts";
import { PAYMENT_COLUMNS, type PaymentRow } from "../../store/payment-row.ts";
import { statement } from "./sql.ts";

/** Named one by one: a `*` would break the plans of running replicas when a newer one adds a column. */
export const PAYMENT_COLUMN_LIST = PAYMENT_COLUMNS.map((column) => `payments.${column}`).join(", ");

export const FIND_PAYMENTS_BY_FINGERPRINT = statement<PaymentRow>(
  "find_payments_by_fingerprint",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments WHERE fingerprint = ANY ($1::text[])`,
);

export const FIND_PAYMENTS_BY_IDENTIFIER = statement<PaymentRow>(
  "find_payments_by_identifier",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[]) AS asked (payer, payment_id) USING (payer, payment_id)
    WHERE state <> 'failed'`,
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

/** Parameters of a query by identifiers. */
export function identifierColumns(identifiers: readonly PaymentIdentifier[]): string[][] {
  return [identifiers.map(({ payer }) => payer.toLowerCase()), identifiers.map(({ id }) => id)];
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
