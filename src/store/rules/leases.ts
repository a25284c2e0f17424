import { backoffMs } from "../../core/backoff.ts";
import type {
  Lease,
  LeaseOutcome,
  LeaseStanding,
  ReleaseOptions,
  RetryBackoff,
  RetryRequest,
} from "../contract/work-queue.ts";
import { BARE_REASONS } from "./call-steps.ts";

/** The `state` column of `job_calls`. */
export type CallState = "held" | "ready" | "leased" | "delayed" | "dead";

/** Columns of a JobCall that determine its lease. */
export interface LeaseColumns {
  readonly state: CallState;
  readonly visible_at: number | null;
  readonly lease_token: string | null;
}

/** Columns of a JobCall that count its attempts. */
export interface AttemptColumns {
  readonly attempts: number;
  /** Attempts that are not counted towards `maxAttempts`. */
  readonly forgiven: number;
}

/**
 * Time for which a suspect is still reported as just due, so that no suspect becomes due unnoticed between a claim and the
 * query of the next due time.
 */
export const JUST_DUE_MS = 50;

/** Reason of a dead letter whose last attempt gave no reason. */
const MAX_ATTEMPTS_REASON = "max_attempts";

/** Reason of a dead letter that has used up its attempts. @param lastReason reason why its last delivery ended, if it ended */
export function usedUpReason(lastReason: string | null | undefined): string {
  if (!lastReason || BARE_REASONS.includes(lastReason)) return MAX_ATTEMPTS_REASON;
  return `${MAX_ATTEMPTS_REASON}: ${lastReason}`;
}

/**
 * Returns a call's state as readers see it. Readers see a JobCall with an expired lease as ready, although only the
 * next claim changes the row.
 */
export function stateAt<Ended extends string>(
  { state, visible_at }: { readonly state: CallState | Ended; readonly visible_at: number | null },
  now: number,
): Exclude<CallState, "delayed"> | Ended {
  if (state === "delayed") return "ready";
  if (state === "leased" && (visible_at ?? 0) <= now) return "ready";
  return state as Exclude<CallState, "delayed"> | Ended;
}

/**
 * Checks whether a lease can still end or be extended. A lease ends exactly when it expires, even if no claim has come
 * since.
 */
export function leaseOutcome(
  call: LeaseColumns | undefined,
  { leaseToken }: Pick<Lease, "leaseToken">,
  now: number,
): LeaseOutcome {
  if (call === undefined || call.state === "held") return "not_found";
  // A dead letter keeps the lease that it was taken from.
  if (call.state === "dead" && call.lease_token !== leaseToken) return "not_found";
  const isHeld = call.state === "leased" && call.lease_token === leaseToken && (call.visible_at ?? 0) > now;
  return isHeld ? "done" : "lease_lost";
}

/** Returns the state of a lease, for a process that shares the queue with others. */
export function leaseStanding(
  call: LeaseColumns | undefined,
  lease: Pick<Lease, "leaseToken">,
  now: number,
): LeaseStanding {
  const outcome = leaseOutcome(call, lease, now);
  if (outcome === "not_found") return { kind: "not_found" };
  if (outcome === "lease_lost") return { kind: "lease_lost", at: now };
  return { kind: "held", at: now, leaseExpiresAt: call?.visible_at ?? now };
}

export function isUsedUp({ attempts, forgiven }: AttemptColumns, maxAttempts: number): boolean {
  return attempts - forgiven >= maxAttempts;
}

/** SQL condition of {@link isUsedUp}. @param maxAttempts SQL of the number */
export const usedUp = (maxAttempts: string) => `attempts - forgiven >= ${maxAttempts}`;

/** SQL condition of the waiting JobCalls whose lease or delay is over. @param now SQL of the time */
const isOver = (now: string) => `state IN ('leased', 'delayed') AND visible_at <= ${now}`;

/** SQL condition of the JobCalls of {@link isOver} without the suspects that a claim can take. */
export const isDue = (now: string, maxAttempts: string) =>
  `${isOver(now)} AND (state = 'leased' OR subscriber IS NULL OR ${usedUp(maxAttempts)})`;

/**
 * SQL condition of the suspects whose delay is over. A suspect stays `delayed` until it is claimed, and keeps the subscriber
 * whose stream ended with the suspect unfinished.
 */
export const isDueSuspect = (now: string) =>
  `${isOver(now)} AND state = 'delayed' AND subscriber IS NOT NULL`;

/** New state of a JobCall whose lease ended without success. */
export type GivenBack =
  | { readonly state: "ready"; readonly forgiven: number }
  | {
      readonly state: "delayed";
      readonly forgiven: number;
      readonly visibleAt: number;
      /** True if the JobCall's next delivery must be the only unfinished JobCall of its stream. */
      readonly suspect: boolean;
    }
  | { readonly state: "dead"; readonly reason: string };

/** @param random in [0, 1), for the jitter of the backoff */
export function afterRetry(
  call: AttemptColumns,
  { maxAttempts, delayMs, backoff, reason }: RetryRequest,
  now: number,
  random: number,
): GivenBack {
  const { attempts, forgiven } = call;
  if (isUsedUp(call, maxAttempts)) return { state: "dead", reason: `${MAX_ATTEMPTS_REASON}: ${reason}` };
  if (delayMs === 0) return { state: "ready", forgiven };
  const waitMs = delayMs ?? retryDelayMs(backoff, attempts - forgiven, random);
  return { state: "delayed", forgiven, visibleAt: now + waitMs, suspect: false };
}

/**
 * A runner that crashes on start ends many streams in a short time. Therefore a JobCall that was lost with such a stream and
 * has used up its attempts becomes a dead letter only when its lease would have expired.
 * @param random in [0, 1), for the jitter of the backoff
 */
export function afterRelease(
  call: AttemptColumns & Pick<LeaseColumns, "visible_at">,
  { excused, suspect, reason, wasAlone, maxAttempts, backoff }: ReleaseOptions,
  now: number,
  random: number,
): GivenBack {
  const { attempts, forgiven } = call;
  if (excused && !suspect) return { state: "ready", forgiven: forgiven + 1 };
  if (excused) return { state: "delayed", forgiven: forgiven + 1, visibleAt: now, suspect: true };
  if (isUsedUp(call, maxAttempts)) {
    if (wasAlone) return { state: "dead", reason: usedUpReason(reason) };
    return { state: "delayed", forgiven, visibleAt: call.visible_at ?? now, suspect: false };
  }
  const visibleAt = now + retryDelayMs(backoff, attempts - forgiven, random);
  return { state: "delayed", forgiven, visibleAt, suspect: true };
}

/**
 * Returns the milliseconds until the attempt that follows attempt number `attempt`, counted from 1. The delay is
 * exponential, capped, and has full jitter.
 * @param random in [0, 1)
 */
export function retryDelayMs(backoff: RetryBackoff, attempt: number, random: number): number {
  return Math.floor(backoffMs({ firstMs: backoff.baseMs, longestMs: backoff.maxMs }, attempt - 1) * random);
}
