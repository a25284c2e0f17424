import type { JobCallOrigin } from "../../core/job-call.ts";
import type { PaymentRecord, PaymentState } from "../../core/payment.ts";
import type { CallStep } from "../rules/call-steps.ts";

/** Lists for operators, newest first. */
export interface OperatorLists {
  listCalls(filter: CallFilter): Promise<Page<ListedCall>>;
  /** Finds any JobCall, finished or not. The JobCall of a failed payment was never queued, so it is not found. */
  findCallDetails(callId: number): Promise<CallDetails | undefined>;
  listPayments(filter: PaymentFilter): Promise<Page<PaymentRecord>>;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  /**
   * `before` of the next page; undefined on the last page. A page has a limit on the entries that it reads, so it can be
   * short or empty although further entries follow.
   */
  readonly next?: number;
}

interface ListFilter {
  readonly limit: number;
  /** The `callId` to page from. */
  readonly before?: number | undefined;
  readonly serviceId?: bigint | undefined;
  readonly jobId?: bigint | undefined;
  /** Lower case. */
  readonly payer?: string | undefined;
  /**
   * Requests from this time on, Unix milliseconds. Requests within a few milliseconds may have IDs in another order than
   * their times.
   */
  readonly since?: number | undefined;
  /** Requests before this time, Unix milliseconds. */
  readonly until?: number | undefined;
}

export interface CallFilter extends ListFilter {
  readonly state?: ListedState | undefined;
  readonly origin?: JobCallOrigin | undefined;
  /** Text that occurs in the metadata, compared byte for byte. */
  readonly text?: string | undefined;
  /** Reason of a group of dead letters. Valid only with the state `dead`. */
  readonly reason?: string | undefined;
}

export interface PaymentFilter extends ListFilter {
  readonly state?: PaymentState | undefined;
}

/**
 * - `held`: waits for its payment, or for its key.
 * - `ready`: waits for a runner, or for a retry.
 * - `leased`: a runner has it.
 * - `done`: acked.
 * - `dead`: a dead letter.
 * - `failed`: acked with an HTTP status of 400 or above.
 * - `dropped`: a dead letter that the operator gave up.
 */
export type ListedState = "held" | "ready" | "leased" | "done" | "dead" | "failed" | "dropped";

export interface ListedCall {
  readonly callId: number;
  readonly origin: JobCallOrigin;
  readonly jobId: bigint;
  readonly serviceId: bigint;
  readonly state: ListedState;
  readonly attempts: number;
  /** Subscribers of the current delivery, or of the last delivery if the call has ended. */
  readonly subscriber?: string | undefined;
  /** Reason why the call is `dead` or `dropped`. */
  readonly reason?: string | undefined;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** End of the lease or of the retry's delay, Unix milliseconds. */
  readonly dueAt?: number | undefined;
  /** Time of the ack or of the dead letter, Unix milliseconds. */
  readonly finishedAt?: number | undefined;
  /** HTTP status of the call's result, if its runner named one. */
  readonly status?: number | undefined;
  /** Payment for the call. */
  readonly payment?:
    | {
        readonly network: string;
        readonly asset: string;
        readonly payer: string;
        /** Base units, decimal. */
        readonly amount: string;
        readonly symbol: string;
      }
    | undefined;
}

export interface CallDetails extends ListedCall {
  /** The latest few steps, oldest first. */
  readonly steps: readonly CallStep[];
  /** Start of the current delivery, or of the last delivery if the call has ended. Unix milliseconds. */
  readonly claimedAt?: number | undefined;
  /** The encoded call without its body. Undefined if the stored call was lost. */
  readonly head?: Uint8Array | undefined;
  /** Size of the result that is kept for the client. */
  readonly resultBytes?: number | undefined;
  /** Charge that the runner last reported, in base units. Set only while the call is open. */
  readonly chargeSoFar?: string | undefined;
}
