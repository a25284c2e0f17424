import { normalKey, oneSpelling, type PaymentKey, type PurchaseName } from "../../../core/payment.ts";
import { PAYMENT_COLUMNS } from "../../../store/payment-row.ts";

/** Every column is named, because `*` breaks the query plans of running replicas when a newer replica adds a column. */
export const PAYMENT_COLUMN_LIST = PAYMENT_COLUMNS.map((column) => `payments.${column}`).join(", ");

/** Parameters of a query by names. */
export function nameColumns(names: readonly PurchaseName[]): string[][] {
  return [names.map(({ payer }) => oneSpelling(payer)), names.map(({ name }) => name)];
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
