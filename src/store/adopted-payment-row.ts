import type { AdoptedPayment } from "./contract/adoption-ledger.ts";

/** Columns of a row of `adopted_payments`. */
export interface AdoptedPaymentRow {
  payer: string;
  nonce: string;
  network: string;
  asset: string;
  /** JSON of the fields that have no column. */
  adopted: string;
}

export function toAdoptedPaymentRow({ key, ...adopted }: AdoptedPayment): AdoptedPaymentRow {
  const { payer, nonce, network, asset } = key;
  return { payer, nonce, network, asset, adopted: JSON.stringify(adopted) };
}

export function toAdoptedPayment({ adopted, ...key }: AdoptedPaymentRow): AdoptedPayment {
  return { key, ...(JSON.parse(adopted) as Omit<AdoptedPayment, "key">) };
}
