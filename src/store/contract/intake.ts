import type { JobCall } from "../../core/job-call.ts";

/** For webhooks: one write makes one JobCall. */
export interface Intake {
  accept(call: JobCall): Promise<{ kind: "accepted"; callId: number } | { kind: "queue_full" }>;

  /**
   * Accepts a call unless its delivery is a repeat of one that was accepted within the window; looking and writing are
   * one, so that exactly one of many racing repeats is accepted. A repeat is told even when the queue is full, and
   * only what is accepted is remembered.
   */
  acceptOnce(call: JobCall, delivery: Delivery): Promise<AcceptOnceOutcome>;
}

/** By what a delivery is known again when it is repeated. */
export interface Delivery {
  /** All are remembered with the call, in place of what was remembered under the same key. */
  readonly keys: readonly DeliveryKey[];
  /** Of what does not differ between repeats. */
  readonly bodyHash: string;
  /** How long it is remembered from now on. */
  readonly windowMs: number;
}

export interface DeliveryKey {
  /** Unique over all endpoints; at most 100 characters. */
  readonly key: string;
  /** Whether an earlier delivery with the same key is the same delivery. */
  readonly identifies: boolean;
}

/**
 * - `duplicate`: with the call of the first delivery, finished or not.
 * - `conflict`: a key that identifies it belongs to a delivery with another body hash.
 */
export type AcceptOnceOutcome =
  | { kind: "accepted"; callId: number }
  | { kind: "duplicate"; callId: number }
  | { kind: "conflict" }
  | { kind: "queue_full" };
