import type { JobCall } from "../../core/job-call.ts";

/** Intake of webhooks: one write makes one JobCall. */
export interface Intake {
  accept(call: JobCall): Promise<AcceptOutcome>;

  /**
   * Accepts a call unless its delivery repeats a delivery that was accepted within the window. The check and the write are
   * atomic, so that exactly one of many racing repeats is accepted. A repeat is reported even when the queue is full, and
   * only accepted deliveries are remembered.
   */
  acceptOnce(call: JobCall, delivery: Delivery): Promise<AcceptOnceOutcome>;
}

/** Identity of a delivery, by which a repeat is recognised. */
export interface Delivery {
  /** The keys are remembered with the call, and replace earlier entries under the same keys. */
  readonly keys: readonly DeliveryKey[];
  /** Hash of the part that repeats have in common. */
  readonly bodyHash: string;
  /** Time for which the delivery is remembered from now on. */
  readonly windowMs: number;
}

export interface DeliveryKey {
  /** Unique over all endpoints; at most 100 characters. */
  readonly key: string;
  /** If true, an earlier delivery with the same key is the same delivery. */
  readonly identifies: boolean;
}

/**
 * `key_paused`: the operator has paused the key of the call, and has decided that new calls with the key are refused.
 */
export type AcceptOutcome =
  | { kind: "accepted"; callId: number }
  | { kind: "queue_full" }
  | { kind: "key_paused" };

/**
 * - `duplicate`: `callId` names the call of the first delivery, which may be finished.
 * - `conflict`: a key that identifies the delivery belongs to a delivery with another body hash.
 */
export type AcceptOnceOutcome = AcceptOutcome | { kind: "duplicate"; callId: number } | { kind: "conflict" };
