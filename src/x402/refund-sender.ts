import type { BackgroundService } from "../core/background-service.ts";
import type { PaymentRecord, RefundEnd } from "../core/payment.ts";
import type { SendingAccounts } from "./holding.ts";

/** Money that goes back to a payer. */
export interface OwedRefund {
  readonly asset: string;
  readonly payer: string;
  /** Token units, decimal. */
  readonly amount: string;
}

/** A refund whose transaction was queued. */
export interface SentRefund extends OwedRefund {
  /** Identifies the transaction in its queue. */
  readonly reference: string;
  /** Hash of a transaction that, according to the operator, no block contains. */
  readonly notMined?: string | undefined;
}

/** Reason of a refund that waits for tokens. */
export const NO_FUNDS = "the refund account is short of tokens";

/** Sends the refunds whose transactions are in the journal's queue of one account on one network. Sends each refund once. */
export interface RefundSender extends BackgroundService, SendingAccounts {
  /** Name of the transactions' queue in the journal. One process owns the queue at a time. */
  readonly queue: string;
  /** Address of the account. */
  readonly account: string;
  /** True while this process sends the queue's transactions. */
  readonly isOwner: boolean;
  /** Checks the queue now. */
  poke(): void;
  /** Returns the token units that the account holds. */
  balance(asset: string): Promise<bigint>;
  /**
   * Makes the transaction of a refund for the journal.
   * @param findPayment finds the payment that is paid back
   */
  transactionOf(
    refund: OwedRefund,
    findPayment: () => Promise<PaymentRecord | undefined>,
  ): Promise<{ readonly to: string; readonly data: string }>;
  /**
   * Finds the outcomes of refunds whose transactions were queued: one for each refund, undefined while the outcome is not
   * certain.
   */
  findEnds(refunds: readonly SentRefund[]): Promise<readonly (RefundEnd | undefined)[]>;
}
