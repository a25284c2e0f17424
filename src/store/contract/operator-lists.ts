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
   * `before` of the next page; absent on the last. A page that looked at enough entries ends early: it can be short, or
   * empty, although more follow.
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
  /** Requests from this time on, Unix milliseconds. Requests milliseconds apart may have IDs in the other order. */
  readonly since?: number | undefined;
  /** Requests before this time, Unix milliseconds. */
  readonly until?: number | undefined;
}

export interface CallFilter extends ListFilter {
  readonly state?: ListedState | undefined;
  readonly origin?: JobCallOrigin | undefined;
  /** Text that the metadata has somewhere, byte for byte. */
  readonly text?: string | undefined;
  /** Reason of a group of dead letters. Only with the state `dead`. */
  readonly reason?: string | undefined;
}

export interface PaymentFilter extends ListFilter {
  readonly state?: PaymentState | undefined;
}

/**
 * - `held`: waits for its payment.
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
  /** Names of the runners that the delivery was claimed for which goes on, or ended the call. */
  readonly subscriber?: string | undefined;
  /** Why it is `dead` or `dropped`. */
  readonly reason?: string | undefined;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** End of the lease or of the retry's delay, Unix milliseconds. */
  readonly dueAt?: number | undefined;
  /** When it was acked or became a dead letter, Unix milliseconds. */
  readonly finishedAt?: number | undefined;
  /** HTTP status of its result, if its runner named one. */
  readonly status?: number | undefined;
  /** Payment for it. */
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
  /** Oldest first; the latest few. */
  readonly steps: readonly CallStep[];
  /** Start of the delivery that goes on, or ended the call. Unix milliseconds. */
  readonly claimedAt?: number | undefined;
  /** The encoded call without its body. Absent if the stored call was lost. */
  readonly head?: Uint8Array | undefined;
  /** Size of the result that is kept for the client. */
  readonly resultBytes?: number | undefined;
  /** Charge that the runner last reported, in base units. Only while the call is open. */
  readonly chargeSoFar?: string | undefined;
}
