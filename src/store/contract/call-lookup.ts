import type { PaymentKey } from "../../core/payment.ts";
import type { JobResult, Progress } from "./work-queue.ts";

/** State of paid calls, for the clients who paid. Only paid calls are kept after they are done. */
export interface CallLookup {
  findCall(callId: number): Promise<CallState | undefined>;
  findResult(callId: number): Promise<JobResult | undefined>;
}

/** Random secrets that stay the same over restarts and replicas. */
export interface SecretKeeper {
  /**
   * Saves a secret unless one with this name exists.
   * @param candidate a new random secret, as text
   * @returns the secret that is kept
   */
  keepSecret(name: string, candidate: string): Promise<string>;
}

export interface CallState {
  readonly callId: number;
  /** The payment that bought it; its buyer's access token is derived from it. */
  readonly payment: PaymentKey;
  readonly state: "held" | "queued" | "running" | "succeeded" | "failed";
  readonly attempt: number;
  /** Only while `running`, and only once the runner has reported progress. */
  readonly progress?: Progress;
  /** Unix milliseconds. */
  readonly enqueuedAt: number;
  /** Unix milliseconds. */
  readonly finishedAt?: number;
}
