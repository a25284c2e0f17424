/**
 * A step of a JobCall that a later step hides. The row keeps the last delivery and the outcome in columns, so that a call
 * that succeeds at once costs nothing more.
 */
export type CallStep = EndedDelivery | Revival;

/** A delivery that ended without success. Times are Unix milliseconds. */
export interface EndedDelivery {
  readonly kind: "delivery";
  readonly attempt: number;
  /** Names of the runners for which it was claimed. */
  readonly subscriber: string;
  readonly from: number;
  readonly to: number;
  readonly reason: string;
}

/** The operator returned a dead letter to the queue. Times are Unix milliseconds. */
interface Revival {
  readonly kind: "revival";
  readonly deadAt: number;
  /** Reason why it had become a dead letter. */
  readonly reason: string;
  readonly at: number;
}

/** Largest number of steps kept for one JobCall. The latest steps are kept. */
export const MAX_STEPS = 10;
/** Longest reason in a step. Runners write the reasons. */
const MAX_STEP_REASON = 200;

/** Reason for the end of a delivery whose runner gave no reason. */
export const LEASE_EXPIRED = "lease expired";
export const STREAM_ENDED = "stream ended";

/** Reasons that say nothing about the cause of the last attempt's failure. */
export const BARE_REASONS: readonly string[] = [LEASE_EXPIRED, STREAM_ENDED];

export function withStep(steps: readonly CallStep[] | null, step: CallStep): CallStep[] {
  const { reason } = step;
  return [...(steps ?? []), { ...step, reason: shortened(reason, MAX_STEP_REASON) }].slice(-MAX_STEPS);
}

/**
 * Truncates a text that is too long, but never within a surrogate pair, because databases differ in how they store half a
 * pair.
 */
export function shortened(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}
