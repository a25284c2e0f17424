/** Decided payments that a person should look at. */
export interface PaymentAlertLedger {
  /** Lists alerts, newest first. */
  listPaymentAlerts(filter: {
    readonly kind?: PaymentAlertKind | undefined;
    readonly limit: number;
    /** `id` to page from. */
    readonly before?: number | undefined;
  }): Promise<PaymentAlert[]>;
}

/**
 * - `charge_lost`: a job was done, and could not be charged.
 * - `paid`: recorded as not paid or not charged, and money moved.
 * - `not_paid`: recorded as paid, and the chain shows that no money moved.
 */
export type PaymentAlertKind = "charge_lost" | "paid" | "not_paid";

export interface PaymentAlert {
  readonly id: number;
  readonly kind: PaymentAlertKind;
  /** Time at which the problem became known, Unix milliseconds. */
  readonly at: number;
  readonly callId: number;
  readonly serviceId: bigint;
  readonly jobIndex: number;
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly payer: string;
  /** Base units. */
  readonly amount: string;
  readonly reason: string;
}
