import type { BackgroundService } from "../core/background-service.ts";
import type { GaugeSample } from "../core/instruments.ts";
import type { PaymentRecord, RefundEnd } from "../core/payment.ts";

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
  /** Hash of a transaction of which the operator says that no block has it. */
  readonly notMined?: string | undefined;
}

/** Reason of a refund that waits for tokens. */
export const NO_FUNDS = "the refund account is short of tokens";

/** Balance of an account of jobgate when it was last read. */
export interface Holding {
  /** CAIP-2. */
  readonly network: string;
  readonly account: string;
  readonly symbol: string;
  /** Undefined for the network's own coin. */
  readonly asset: string | undefined;
  /** Base units. */
  readonly amount: bigint;
  readonly decimals: number;
  /** Payments wait for more. */
  readonly isShort: boolean;
  /** Unix milliseconds. */
  readonly readAt: number;
}

/** Sends refunds from one account on one network: those whose transactions are in its queue of the journal, each once. */
export interface RefundSender extends BackgroundService {
  /** Name under which the journal has the transactions, and one process owns them. */
  readonly queue: string;
  /** Address of the account. */
  readonly account: string;
  /** True while this process sends the queue's transactions. */
  readonly isOwner: boolean;
  /** Looks at the queue now. */
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
  /** Finds the ends of refunds whose transactions were queued: one for each, undefined while it is not certain. */
  findEnds(refunds: readonly SentRefund[]): Promise<readonly (RefundEnd | undefined)[]>;
  /** Does not wait for the chain. */
  gauges(): GaugeSample[];
  /** Returns the coins for gas. Queries no chain. */
  holdings(): Holding[];
}
