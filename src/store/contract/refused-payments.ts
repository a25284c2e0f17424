import type { ErrorCode } from "../../core/errors.ts";

/** Time that the refusal of a payment is kept. */
export const REFUSED_KEPT_MS = 7 * 86_400_000;

/** Most refusals of payments that are kept. */
export const MAX_REFUSED_PAYMENTS = 100_000;

/** Most refusals in one write, and twice as many are the oldest that a write looks at to forget them. */
export const REFUSED_AT_ONCE = 500;

/** Why payments bought nothing, for the operator. */
export interface RefusedPaymentLog {
  /**
   * Keeps refusals, at most {@link REFUSED_AT_ONCE}, and forgets a bounded number of those that are older than
   * {@link REFUSED_KEPT_MS} by the store's clock, or more than {@link MAX_REFUSED_PAYMENTS}.
   */
  saveRefusedPayments(refused: readonly RefusedPayment[]): Promise<void>;
  /** Lists refusals that are to be kept, newest first. */
  listRefusedPayments(filter: RefusedPaymentFilter): Promise<readonly ListedRefusedPayment[]>;
  /** Counts the refusals that are to be kept, by job, code and reason; the most frequent first. */
  countRefusedPayments(): Promise<readonly RefusedPaymentCount[]>;
}

/** Refusals of the payments for one job that have one code and one reason. */
export interface RefusedPaymentCount
  extends Pick<RefusedPayment, "serviceId" | "jobIndex" | "code" | "reason"> {
  readonly count: number;
  /** Time of the newest, Unix milliseconds. */
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
  /** The answer has it in `X-Request-Id`. */
  readonly requestId: string;
  readonly serviceId: bigint;
  readonly jobIndex: number;
  readonly code: ErrorCode;
  /** Sentence that the client got. */
  readonly message: string;
  /** Reason that the facilitator or the database gave. */
  readonly reason?: string;
  /** As the payment says, verified or not. Absent for a payment that cannot be read. */
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
  /** Rises with time. */
  readonly id: number;
}
