import type { JobResult } from "../contract/work-queue.ts";
import { type CallStep, LEASE_EXPIRED, withStep } from "../rules/call-steps.ts";
import { AUTHORIZATION_ENDED, type ChargeColumns } from "../rules/charges.ts";
import { type AttemptColumns, isUsedUp, type LeaseColumns, usedUpReason } from "../rules/leases.ts";
import type { EndedCall } from "./announcements.ts";
import type { DeadCall } from "./changes.ts";

/** Columns of a JobCall that decide about its ack. */
export interface LeasedRow extends EndedCall, LeaseColumns {
  /** Token units; null unless the JobCall is charged after it ran. */
  readonly ceiling: string | null;
  /** 1 if the JobCall's latest lease counts towards a limit of its job. */
  readonly limited: number | null;
}

/** Columns of a JobCall that decide about any other end of its lease. */
export interface CallRow extends LeasedRow, AttemptColumns, ChargeColumns {
  readonly subscriber: string | null;
  readonly claimed_at: number | null;
  readonly history: readonly CallStep[] | null;
  readonly progress_percent: number | null;
  readonly progress_text: string | null;
  readonly dead_at: number | null;
  readonly dead_reason: string | null;
}

export const CALL_COLUMNS = [
  ...["call_id", "origin", "job_id", "service_id", "state", "visible_at", "lease_token", "ceiling"],
  ...[
    "order_key",
    "limited",
    "attempts",
    "forgiven",
    "min_charge",
    "charge_so_far",
    "subscriber",
    "claimed_at",
  ],
  ...["history", "progress_percent", "progress_text", "dead_at", "dead_reason"],
] as readonly (keyof CallRow)[];

/** Outcome of a JobCall that was acked. */
export interface FinishedCall {
  readonly at: number;
  readonly state: "succeeded" | "failed";
  readonly result: JobResult | undefined;
  /** Token units that are charged; null unless the JobCall is charged after it ran. */
  readonly charge: string | null;
}

export type DeadRow = CallRow & DeadCall;

/** Rows of JobCalls in a database. */
export interface CallRows {
  /** Finds a JobCall, including the commit's changes so far. */
  find(callId: number): CallRow | undefined;
  /** Finds a JobCall that the commit acks. */
  findLeased(callId: number): LeasedRow | undefined;
  /** Removes an acked JobCall. Its outcome is kept, and also its result if it was paid for. */
  finish(row: LeasedRow, finished: FinishedCall): void;
  /** Writes a chunk of the result of a JobCall's current delivery. */
  addChunk(row: CallRow, place: number, bytes: Uint8Array): void;
  change(row: CallRow): void;
  /** Writes JobCalls that became ready when their lease or delay ended. */
  makeReady(rows: readonly CallRow[]): void;
  /** Writes the changes of an extended lease. */
  extend(row: CallRow): void;
  /** Removes a dead letter. Its reason is kept. */
  drop(row: CallRow): void;
}

export const NO_LEASE = { visible_at: null, lease_token: null, subscriber: null, claimed_at: null };

/**
 * Decides about a JobCall whose lease or delay is over. The JobCall becomes ready, or a dead letter if its attempts are
 * used up. A suspect stays delayed until it is claimed.
 * @returns undefined if nothing changes
 */
export function whenDue(row: CallRow, now: number, maxAttempts: number): CallRow | undefined {
  const { state, subscriber, visible_at } = row;
  const isOver = (state === "leased" || state === "delayed") && (visible_at ?? 0) <= now;
  if (!isOver && state !== "ready") return undefined;
  if (isUsedUp(row, maxAttempts)) {
    const lastReason = state === "leased" ? undefined : row.history?.at(-1)?.reason;
    return deadLetter(row, usedUpReason(lastReason), now);
  }
  const isSuspect = state === "delayed" && subscriber !== null;
  if (state === "ready" || isSuspect) return undefined;
  return { ...row, ...NO_LEASE, state: "ready", history: withDelivery(row, LEASE_EXPIRED, now) };
}

/**
 * Makes the row of a dead letter. A runner that is still working on the JobCall will get `lease_lost`.
 * @param endedBy reason why its delivery ended, if it is leased
 */
export function deadLetter(row: CallRow, reason: string, now: number, endedBy = LEASE_EXPIRED): DeadRow {
  const history = withDelivery(row, endedBy, now);
  const lease_token = endedBy === AUTHORIZATION_ENDED ? row.lease_token : null;
  return { ...row, ...NO_LEASE, lease_token, state: "dead", dead_at: now, dead_reason: reason, history };
}

/** Adds a JobCall's current delivery, if any, to its history. */
export function withDelivery(row: CallRow, reason: string, now: number): CallRow["history"] {
  const { state, attempts: attempt, subscriber, claimed_at, visible_at } = row;
  if (state !== "leased") return row.history;
  const times = { from: claimed_at ?? now, to: Math.min(now, visible_at ?? now) };
  return withStep(row.history, { kind: "delivery", attempt, subscriber: subscriber ?? "", ...times, reason });
}
