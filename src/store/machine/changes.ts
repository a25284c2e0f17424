import type { NewMovementRow } from "../movement-row.ts";
import type { PaymentRow } from "../payment-row.ts";
import type { RefundRow } from "../refund-row.ts";
import type { TransactionRow } from "../transaction-row.ts";

/** Columns of a payment that reactions read. */
export const SOLD_COLUMNS = [
  "call_id",
  "state",
  "service_id",
  "job_index",
  "network",
  "asset",
  "symbol",
  "decimals",
  "payer",
  "pay_to",
  "amount",
  "price_wei",
  "rate",
  "settlement",
  "block_number",
  "ceiling",
  "updated_at",
] as const satisfies readonly (keyof PaymentRow)[];

export type SoldPayment = Readonly<Pick<PaymentRow, (typeof SOLD_COLUMNS)[number]>>;

/** Change of a row that a commit makes, with the row as it is after the change. */
export type Change =
  /** The payment's state became another one. */
  | { readonly kind: "paymentDecided"; readonly payment: SoldPayment }
  /** The chain contradicts a decided payment. */
  | { readonly kind: "paymentContradicted"; readonly payment: SoldPayment; readonly at: number }
  | { readonly kind: "refundChanged"; readonly refund: RefundRow }
  /** A transaction that was sent is in a block. */
  | { readonly kind: "transactionMined"; readonly transaction: TransactionRow };

/** Settled amount that is added to the sum of its hour. */
export interface Revenue {
  /** Unix hours. */
  readonly hour: number;
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly amount: string;
}

/** Further write of the same commit, which a change causes. */
export type Effect =
  | { readonly kind: "movement"; readonly row: NewMovementRow }
  | { readonly kind: "revenue"; readonly revenue: Revenue };

/** Rows that reactions read beside the change, as the commit has made them so far. */
export interface Known {
  /** Finds the payment of a JobCall. */
  payment(callId: number): SoldPayment | undefined;
  /** Finds the account that sent a refund's transaction. */
  refundAccount(refund: RefundRow): string | null;
}

/** Effects of changes, by the kind of the change. */
export type Reactions = {
  readonly [Kind in Change["kind"]]?: (change: Extract<Change, { kind: Kind }>, known: Known) => Effect[];
};
