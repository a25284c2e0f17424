import type { BackgroundService } from "../core/background-service.ts";
import type { PaymentRecord, TransferEnd } from "../core/payment.ts";
import type { SendingAccounts } from "./holding.ts";

/** Money for the payer of an earlier payment. */
export interface Transfer {
  readonly asset: string;
  readonly payer: string;
  /** Token units, decimal. */
  readonly amount: string;
}

/** A transfer whose transaction was queued. */
export interface QueuedTransfer extends Transfer {
  /** Identifies the transaction in its queue. */
  readonly reference: string;
  /** Hash of a transaction that, according to the operator, no block contains. */
  readonly notMined?: string | undefined;
}

/** Sends the transfers whose transactions are in the journal's queue of one account on one network. Sends each transfer once. */
export interface TransferSender extends BackgroundService, SendingAccounts {
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
   * Makes the transaction of a transfer for the journal.
   * @param findPayment finds the earlier payment
   */
  transactionOf(
    transfer: Transfer,
    findPayment: () => Promise<PaymentRecord | undefined>,
  ): Promise<{ readonly to: string; readonly data: string }>;
  /**
   * Finds the outcomes of transfers whose transactions were queued: one for each transfer, undefined while the outcome is not
   * certain.
   */
  findEnds(transfers: readonly QueuedTransfer[]): Promise<readonly (TransferEnd | undefined)[]>;
}
