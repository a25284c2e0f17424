import type { ErrorCode } from "../../core/errors.ts";

/** Time for which the refusal of a payment is kept. */
export const REFUSED_KEPT_MS = 7 * 86_400_000;

/** Most refusals of payments that are kept. */
export const MAX_REFUSED_PAYMENTS = 100_000;

/**
 * Largest number of refusals in one write. Each write also reads up to twice as many of the oldest refusals, to delete them.
 */
export const REFUSED_AT_ONCE = 500;

/** Reasons why payments bought nothing, for the operator. */
export interface RefusedPaymentLog {
  /**
   * Saves at most {@link REFUSED_AT_ONCE} refusals. Deletes a bounded number of refusals that are older than {@link
   * REFUSED_KEPT_MS} on the store's clock, or that exceed {@link MAX_REFUSED_PAYMENTS}.
   */
  saveRefusedPayments(refused: readonly RefusedPayment[]): Promise<void>;
  /** Lists refusals that are still kept, newest first. */
  listRefusedPayments(filter: RefusedPaymentFilter): Promise<readonly ListedRefusedPayment[]>;
  /** Counts the refusals that are still kept, by job, code and reason, the most frequent first. */
  countRefusedPayments(): Promise<readonly RefusedPaymentCount[]>;
}

/** Number of refused payments for one job that share a code and a reason. */
export interface RefusedPaymentCount
  extends Pick<RefusedPayment, "serviceId" | "jobIndex" | "code" | "reason"> {
  readonly count: number;
  /** Time of the newest refusal, Unix milliseconds. */
  readonly newestAt: number;
}

export interface RefusedPaymentFilter {
  readonly limit: number;
  /** The `id` to page from. */
  readonly before?: number | undefined;
  readonly serviceId?: bigint | undefined;
  readonly jobIndex?: number | undefined;
  /** Lower case. */
  readonly payer?: string | undefined;
  readonly code?: string | undefined;
  readonly requestId?: string | undefined;
}

/** A request whose payment bought nothing. */
export interface RefusedPayment {
  /** Unix milliseconds. */
  readonly at: number;
  /** ID in the answer's `X-Request-Id`. */
  readonly requestId: string;
  readonly serviceId: bigint;
  readonly jobIndex: number;
  readonly code: ErrorCode;
  /** Sentence in the client's answer. */
  readonly message: string;
  /** Reason that the facilitator or the database gave. */
  readonly reason?: string;
  /** Claims of the payment, verified or not. Undefined if the payment cannot be read. */
  readonly payment?: {
    /** Lower case. */
    readonly payer: string;
    /** CAIP-2, or the name that the payment's version of x402 has for it. */
    readonly network: string;
    /** Token units, decimal. */
    readonly amount: string;
  };
}

export interface ListedRefusedPayment extends RefusedPayment {
  /** The ID rises with time. */
  readonly id: number;
}
