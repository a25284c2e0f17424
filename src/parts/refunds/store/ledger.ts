import type { TransferEnd } from "../../../core/payment.ts";
import type { NewTransaction } from "../../transactions/store/journal.ts";

/**
 * Refunds of paid JobCalls that failed. The write that makes such a JobCall a dead letter, or acks it with an HTTP status
 * of 400 or above, makes its refund too, unless the payment was sold with `on_failure` keep. Retrying the dead letter
 * cancels the refund. So no method here makes or cancels a refund.
 */
export interface RefundLedger {
  /**
   * Lists the refunds of one network that are to be sent now, or are being sent, oldest first. `after` is the `callId` to
   * page from.
   */
  listOpenRefunds(
    network: string,
    filter: {
      readonly state: "owed" | "sending";
      readonly limit: number;
      readonly after?: number | undefined;
    },
  ): Promise<Refund[]>;

  /** Counts the refunds of all networks that are owed or being sent. */
  countOpenRefunds(): Promise<number>;

  /**
   * Notes why an approved refund that is owed is not sent yet, and whether the operator has to approve it.
   * @returns false when the refund is in another state, or the operator has waived the proof that it lacks
   */
  holdRefund(callId: number, reason: string, options: { readonly forOperator: boolean }): Promise<boolean>;

  /**
   * Queues the transaction of an approved refund that is owed, and notes that it is being sent, in one write. The
   * transaction is kept in the journal for as long as the refund is being sent.
   * @returns the refund; undefined when it is in another state or another attempt
   */
  sendRefund(callId: number, attempt: number, transaction: NewTransaction): Promise<Refund | undefined>;

  /**
   * Records the outcome of the transaction of a refund that is being sent, or records that the transaction is lost,
   * because nothing shows it any more.
   * @returns the refund; undefined when it is in another state, or being sent by another transaction
   */
  endRefund(callId: number, reference: string, end: TransferEnd): Promise<Refund | undefined>;

  /**
   * The operator approves or declines a refund. Accepts refunds for which {@link "./rules.ts".decided} returns a refund.
   * Approving a failed refund begins its next attempt.
   */
  decideRefund(callId: number, decision: RefundDecision): Promise<DecideRefundOutcome>;

  /**
   * Lists refunds for the operator, newest first. `before` is the `callId` to page from. Leaves out cancelled refunds.
   */
  listRefunds(filter: {
    readonly state?: RefundState | undefined;
    readonly limit: number;
    readonly before?: number | undefined;
  }): Promise<Refund[]>;

  /** Finds the states of the refunds of JobCalls, by call ID. Leaves out cancelled refunds. */
  findRefundStates(callIds: readonly number[]): Promise<Pick<Refund, "callId" | "state">[]>;
}

/**
 * - `owed`: waits to be sent, possibly for the operator or for funds.
 * - `sending`: its transaction is queued, and may be broadcast or mined. With a reason, the transaction is lost.
 * - `refunded`: the chain shows the transfer.
 * - `refund_failed`: the transaction certainly moved nothing. The operator can approve it again.
 * - `declined`: the operator keeps the money.
 */
export type RefundState = "owed" | "sending" | "refunded" | "refund_failed" | "declined";

/** Sum of one token's refunds in one state. */
export interface RefundSum {
  /** CAIP-2. */
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly state: RefundState;
  readonly refunds: number;
  /** Token units. */
  readonly amount: bigint;
  /** Time at which the oldest refund became owed, Unix milliseconds. */
  readonly oldestAt: number;
}

export interface Refund {
  readonly callId: number;
  readonly state: RefundState;
  /** True if no approval is needed, or if the operator approved the refund. */
  readonly isApproved: boolean;
  /** CAIP-2. */
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly payer: string;
  /** Token units, decimal. */
  readonly amount: string;
  /** Number of the attempt, from 1. Each attempt has a transaction of its own. */
  readonly attempt: number;
  /** Reference of the attempt's transaction, once it was queued. */
  readonly reference?: string | undefined;
  /** Hash of the mined transaction; while `sending`, hash of a transaction that is lost. */
  readonly transaction?: string | undefined;
  /** Reason why the refund failed, or waits. */
  readonly reason?: string | undefined;
  /**
   * Last decision of an operator, with its time in Unix milliseconds. `waivesProof`: the operator approved the refund
   * although the chain does not show its payment. `notMined`: hash of the lost transaction that the operator had replaced.
   */
  readonly decision?:
    | (RefundDecision & {
        readonly waivesProof?: true;
        readonly notMined?: string;
        readonly at: number;
      })
    | undefined;
  /** Unix milliseconds. */
  readonly createdAt: number;
  /** Unix milliseconds. */
  readonly updatedAt: number;
}

/** An operator's decision. */
export interface RefundDecision {
  readonly as: "approved" | "declined";
  /** Name of the operator, as the request gives it. */
  readonly by: string;
  readonly note: string;
}

/** `refund` is the refund as it is; undefined if there is none. */
type DecideRefundOutcome =
  | { readonly kind: "decided"; readonly refund: Refund }
  | { readonly kind: "not_open"; readonly refund: Refund | undefined };
