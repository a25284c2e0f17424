/**
 * A step of a JobCall that a later one hides. The row keeps the last delivery and the end in columns, so that a call
 * that succeeds at once costs nothing more.
 */
export type CallStep = EndedDelivery | Revival;

/** A delivery that ended without success. Times are Unix milliseconds. */
export interface EndedDelivery {
  readonly kind: "delivery";
  readonly attempt: number;
  /** Names of the runners that it was claimed for. */
  readonly subscriber: string;
  readonly from: number;
  readonly to: number;
  readonly reason: string;
}

/** The operator returned a dead letter to the queue. Times are Unix milliseconds. */
interface Revival {
  readonly kind: "revival";
  readonly deadAt: number;
  /** Why it had become a dead letter. */
  readonly reason: string;
  readonly at: number;
}

/** Most steps kept of one JobCall: the latest. */
export const MAX_STEPS = 10;
/** Longest reason in a step: runners write them. */
const MAX_STEP_REASON = 200;

/** Why a delivery ended whose runner did not say so. */
export const LEASE_EXPIRED = "lease expired";
export const STREAM_ENDED = "stream ended";

/** Reasons that name nothing that the last attempt met. */
export const BARE_REASONS: readonly string[] = [LEASE_EXPIRED, STREAM_ENDED];

export function withStep(steps: readonly CallStep[] | null, step: CallStep): CallStep[] {
  const { reason } = step;
  return [...(steps ?? []), { ...step, reason: shortened(reason, MAX_STEP_REASON) }].slice(-MAX_STEPS);
}

/** Cuts a text that is too long, and never in the middle of a surrogate pair: databases differ in what they keep of half a pair. */
export function shortened(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}
