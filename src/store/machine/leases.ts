import { canCharge, hasFailed, NOT_MODIFIED } from "../../core/result-answer.ts";
import type {
  AckedLease,
  Charge,
  DeadLetteredCall,
  EndedLease,
  JobResult,
  Lease,
  LeaseOutcome,
  Progress,
  ReleaseOptions,
  RetryRequest,
} from "../contract/work-queue.ts";
import { canRetry } from "../modules/modules.ts";
import type { Capacity } from "../new-call.ts";
import type { Input, Outcome } from "../operations.ts";
import { LEASE_EXPIRED, STREAM_ENDED, withStep } from "../rules/call-steps.ts";
import { AUTHORIZATION_ENDED, chargeAtEnd, chargedUnits, isWhole } from "../rules/charges.ts";
import { afterRelease, afterRetry, type GivenBack, leaseOutcome } from "../rules/leases.ts";
import { chargeEvent } from "../rules/payments.ts";
import {
  type CallRow,
  type CallRows,
  type DeadRow,
  deadLetter,
  NO_LEASE,
  whenDue,
  withDelivery,
} from "./call-row.ts";
import { decidedCharge } from "./deferred.ts";
import type { Effects } from "./effects.ts";

/** Operations of {@link LeaseSteps}. */
export const LEASE_STEPS = [
  ...(["ack", "appendResult", "retry", "fail", "release", "extend"] as const),
  ...(["withhold", "retryDeadLetter", "dropDeadLetter", "endAuthorization"] as const),
] as const;
export type LeaseStep = (typeof LEASE_STEPS)[number];

/** Operations on a lease, and operations on dead letters that write. */
export class LeaseSteps
  implements Readonly<{ [Name in LeaseStep]: (now: number, ...input: Input<Name>) => Outcome<Name> }>
{
  readonly #rows: CallRows;
  readonly #capacity: Capacity;
  readonly #effects: Effects;

  constructor(rows: CallRows, capacity: Capacity, effects: Effects) {
    this.#rows = rows;
    this.#capacity = capacity;
    this.#effects = effects;
  }

  ack(now: number, lease: Lease, result?: JobResult, asked?: Charge): AckedLease {
    const row = this.#rows.findLeased(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome };
    const status = result?.status;
    const isCharged = canCharge(status) || (status === NOT_MODIFIED && isWhole(asked));
    const charge = row.ceiling === null ? null : isCharged ? chargedUnits(row.ceiling, asked) : "0";
    this.#rows.finish(row, { at: now, state: hasFailed(status) ? "failed" : "succeeded", result, charge });
    this.#capacity.adjust(-1);
    this.#endLease(row);
    return this.#effects.finished(row, { charge, status, at: now });
  }

  appendResult(now: number, lease: Lease, place: number, bytes: Uint8Array): LeaseOutcome {
    const row = this.#rows.find(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row !== undefined && outcome === "done") this.#rows.addChunk(row, place, bytes);
    return outcome;
  }

  retry(now: number, lease: Lease, request: RetryRequest): EndedLease {
    return this.#end(now, lease, request.reason, (row) => afterRetry(row, request, now, Math.random()));
  }

  fail(now: number, lease: Lease, reason: string): EndedLease {
    return this.#end(now, lease, reason, () => ({ state: "dead", reason }));
  }

  release(now: number, lease: Lease, options: ReleaseOptions): EndedLease {
    return this.#end(now, lease, options.reason ?? STREAM_ENDED, (row) =>
      afterRelease(row, options, now, Math.random()),
    );
  }

  extend(now: number, ...[lease, leaseMs, progress, chargeSoFar]: Input<"extend">): Outcome<"extend"> {
    const row = this.#rows.find(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome, leaseExpiresAt: 0 };
    const isReported = row.ceiling !== null && chargeSoFar !== undefined;
    const charge_so_far = isReported ? chargedUnits(row.ceiling, chargeSoFar) : row.charge_so_far;
    const leaseExpiresAt = now + leaseMs;
    this.#rows.extend({ ...row, ...reported(row, progress), charge_so_far, visible_at: leaseExpiresAt });
    return { outcome, leaseExpiresAt };
  }

  withhold(_now: number, callId: number): boolean {
    const row = this.#rows.find(callId);
    if (row?.state !== "ready" && row?.state !== "delayed") return false;
    if (!this.#effects.mustWait(row)) return false;
    this.#rows.change(waiting(row));
    return true;
  }

  retryDeadLetter(now: number, callId: number): Outcome<"retryDeadLetter"> {
    const row = this.#rows.find(callId);
    if (row?.state !== "dead") return "not_found";
    const isReleased = this.#effects.payment(callId)?.state === "released";
    if (isReleased || !canRetry(callId, this.#effects.rows)) return "buyer_paid_back";
    const { attempts: forgiven, dead_at, dead_reason } = row;
    const step = { kind: "revival", deadAt: dead_at ?? now, reason: dead_reason ?? "", at: now } as const;
    const history = withStep(row.history, step);
    const state = this.#effects.readmit(row);
    this.#rows.change({ ...row, state, forgiven, dead_at: null, dead_reason: null, history });
    this.#effects.note({ kind: "revived", callId });
    // The operator decided, so this may exceed max_pending.
    this.#capacity.adjust(1);
    return "retried";
  }

  dropDeadLetter(_now: number, callId: number): boolean {
    const row = this.#rows.find(callId);
    if (row?.state !== "dead") return false;
    this.#rows.drop(row);
    this.#effects.note({ kind: "dropped", call: row });
    return true;
  }

  endAuthorization(now: number, callId: number): Outcome<"endAuthorization"> {
    const row = this.#rows.find(callId);
    const payment = this.#effects.payment(callId);
    if (row === undefined || payment === undefined) return { kind: "not_open" };
    const amount = chargeAtEnd(row, payment.charge, now);
    const charge = decidedCharge(payment, amount ?? "0");
    if (charge === undefined) return { kind: "not_open" };
    if (amount === undefined) {
      const isRunning = row.state === "leased" && (row.visible_at ?? 0) > now;
      const endedBy = isRunning ? AUTHORIZATION_ENDED : LEASE_EXPIRED;
      return { kind: "dead_lettered", deadLettered: this.deadLetter(row, AUTHORIZATION_ENDED, now, endedBy) };
    }
    this.#effects.decide(payment, chargeEvent(amount), now);
    return { kind: "charged", charge };
  }

  /**
   * Makes a JobCall a dead letter.
   * @param endedBy reason why its delivery ended, if it is leased
   */
  deadLetter(row: CallRow, reason: string, now: number, endedBy = LEASE_EXPIRED): DeadLetteredCall {
    const dead = deadLetter(row, reason, now, endedBy);
    this.#rows.change(dead);
    this.#endLease(row);
    this.#capacity.adjust(-1);
    return this.#effects.deadLettered(dead);
  }

  /**
   * Ends the leases and delays that are over, and dead-letters the JobCalls that have used up their attempts.
   * @returns the new dead letters, for {@link Effects.deadLettered}
   */
  endDue(rows: readonly CallRow[], now: number, maxAttempts: number): DeadRow[] {
    const ended = rows.flatMap((row) => {
      const next = whenDue(row, now, maxAttempts);
      if (next === undefined) return [];
      this.#endLease(row);
      return next;
    });
    const dead = ended.filter((row): row is DeadRow => row.state === "dead");
    for (const row of dead) this.#rows.change(row);
    const ready = ended.filter((row) => {
      if (row.state !== "ready") return false;
      const mustWait = this.#effects.mustWait(row);
      if (mustWait) this.#rows.change(waiting(row));
      return !mustWait;
    });
    if (ready.length > 0) this.#rows.makeReady(ready);
    this.#capacity.adjust(-dead.length);
    return dead;
  }

  #endLease({ state, limited }: Pick<CallRow, "state" | "limited">): void {
    if (limited !== null && state === "leased") this.#effects.freesPlace();
  }

  /** Ends a lease without success, if it is still valid, in the way that `decide` returns. */
  #end(now: number, lease: Lease, endedBy: string, decide: (row: CallRow) => GivenBack): EndedLease {
    const row = this.#rows.find(lease.callId);
    const outcome = leaseOutcome(row, lease, now);
    if (row === undefined || outcome !== "done") return { outcome };
    const becomes = decide(row);
    if (becomes.state === "dead")
      return { outcome, deadLettered: this.deadLetter(row, becomes.reason, now, endedBy) };
    const { state, forgiven } = becomes;
    const isDelayed = becomes.state === "delayed";
    const visible_at = isDelayed ? becomes.visibleAt : null;
    const subscriber = isDelayed && becomes.suspect ? row.subscriber : null;
    const history = withDelivery(row, endedBy, now);
    const next = { ...row, ...NO_LEASE, state, forgiven, visible_at, subscriber, history };
    this.#rows.change(this.#effects.mustWait(row) ? waiting(next) : next);
    this.#endLease(row);
    return { outcome };
  }
}

/** Returns the row of a JobCall that waits until its key is resumed. The rest of its delay is discarded. */
function waiting(row: CallRow): CallRow {
  return { ...row, ...NO_LEASE, state: "held" };
}

function reported({ progress_percent, progress_text }: CallRow, progress: Progress | undefined) {
  return progress === undefined
    ? { progress_percent, progress_text }
    : { progress_percent: progress.percent, progress_text: progress.text };
}
