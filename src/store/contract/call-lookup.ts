import type { JobKey } from "../../core/job-call.ts";
import type { MovedElsewhere, OneTimeNonce, PaymentKey, PaymentState } from "../../core/payment.ts";
import type { JobResult, Progress } from "./work-queue.ts";

/** Text that replaces a result which `forgetResult` has deleted. */
export const NOT_KEPT = "not_kept";

/** A request that a payer may already have paid for. */
export interface BoughtRequest extends Pick<PaymentKey, "payer">, JobKey {
  /** CAIP-2. Undefined if the payer may have paid on any network. */
  readonly network?: string | undefined;
  /** SHA-256 of the whole request. */
  readonly bodyHash: string;
}

/** Most JobCalls that {@link CallLookup.listBought} returns. */
export const MAX_BOUGHT = 20;

/** State of paid calls, for the clients who paid. */
export interface CallLookup {
  findCall(callId: number): Promise<CallState | undefined>;
  /**
   * Finds the JobCalls that a payer bought with one request and whose payments are settled, newest first, at most
   * {@link MAX_BOUGHT}. Only the payer's newest payments are searched.
   * @param withinMs largest age of the payments
   */
  listBought(request: BoughtRequest, withinMs: number): Promise<readonly number[]>;

  /** @returns undefined for a call without a result */
  findResult(callId: number): Promise<StoredResult | typeof NOT_KEPT | undefined>;
  /**
   * Reads bytes of a result from an offset on: at most `length`, and no more than to the end of a chunk.
   * @returns undefined for a result that is no longer kept
   */
  readResult(callId: number, offset: number, length: number): Promise<Uint8Array | undefined>;
  /** Returns the size of all results in bytes. Reads every row of results. */
  resultBytes(): Promise<number>;
}

/** Result of a call, as {@link CallLookup.findResult} returns it. */
export interface StoredResult extends Omit<JobResult, "body" | "storedBytes"> {
  readonly size: number;
  /** Undefined if the result is larger than a chunk. {@link CallLookup.readResult} reads such a result. */
  readonly body: Uint8Array | undefined;
}

/** Random secrets that stay the same over restarts and replicas. */
export interface SecretKeeper {
  /**
   * Saves a secret, unless a secret with this name exists.
   * @param candidate a new random secret, as text
   * @returns the secret that is kept
   */
  keepSecret(name: string, candidate: string): Promise<string>;
}

/** Nonces that are used up without a payment. */
export interface NonceLedger {
  /** @returns false if the nonce was used before, or has expired */
  useNonce(nonce: OneTimeNonce): Promise<boolean>;
}

/** Charge for a call whose job is charged after it ran. */
export interface CallCharge {
  /** The job has succeeded, and its charge is not certain yet. */
  readonly isAwaited?: true;
  readonly state: Exclude<PaymentState, "intent">;
  /** Token units, decimal, as is `amount`. */
  readonly ceiling: string;
  /** Undefined while the charge is not known. */
  readonly amount?: string;
  readonly symbol: string;
  /** Hash of the settlement's transaction, if one is known. */
  readonly transaction?: string;
  /** Set only for a charge that failed or was released. */
  readonly moved?: MovedElsewhere;
}

/** Facts that a part adds to the state of a call, for the client of the call. */
export interface CallAddition {
  /** Fields of the call in answers. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Name of the call's state in the part. */
  readonly state: string;
  /** True if the state will change without a decision of the operator, even after the call has failed. */
  readonly goesOn: boolean;
  /** The money was sent back to the buyer, or will be. */
  readonly givesBack: boolean;
}

export interface CallState {
  readonly callId: number;
  /** The payment that bought the call. The buyer's access token is derived from it. */
  readonly payment: PaymentKey;
  readonly job: JobKey;
  /** JSON of the settlement response that the client got; undefined if the client got no settlement response. */
  readonly settlement?: string;
  /**
   * `expired`: the call was paid for, and its outcome is no longer kept. A call that is charged after it ran has
   * `succeeded` only once its charge is certain, because the client gets the result only for the money. Such a call has
   * `failed` if the charge cannot be collected.
   */
  readonly state: "held" | "queued" | "running" | "succeeded" | "failed" | "expired";
  readonly attempt: number;
  /** Set only while the call is `running`, once the runner has reported progress. */
  readonly progress?: Progress;
  /** Reason why the call `failed`: the runner's text, or `max_attempts`. */
  readonly reason?: string;
  /** HTTP status that its runner gave the result. A call that `failed` with a status has a result. */
  readonly status?: number | undefined;
  /** Set only for a call that is charged after it ran. */
  readonly charge?: CallCharge;
  /** Facts that parts add, for the client of the call. */
  readonly additions?: readonly CallAddition[];
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds. */
  readonly finishedAt?: number;
}
