import type { JobCallOrigin } from "../core/job-call.ts";
import type { PaymentState } from "../core/payment.ts";
import type { CallState as CallStateAnswer } from "./contract/call-lookup.ts";
import type { DeadLetter } from "./contract/dead-letter-box.ts";
import type { CallState } from "./rules/leases.ts";
import type { StoreTotals } from "./store.ts";

/** Columns of a dead letter. */
export interface DeadLetterRow {
  call_id: number;
  origin: JobCallOrigin;
  job_id: string;
  service_id: string;
  attempts: number;
  dead_reason: string;
  enqueued_at: number;
  dead_at: number;
}

export function toDeadLetter(row: DeadLetterRow): DeadLetter {
  return {
    callId: row.call_id,
    origin: row.origin,
    jobId: BigInt(row.job_id),
    serviceId: BigInt(row.service_id),
    attempts: row.attempts,
    reason: row.dead_reason,
    enqueuedAt: row.enqueued_at,
    deadAt: row.dead_at,
  };
}

/** Columns of a paid call and its payment, from `job_calls` or `results`. */
export interface PaidCallRow {
  network: string;
  asset: string;
  payer: string;
  nonce: string;
  state: CallState | "succeeded" | "failed";
  visible_at: number | null;
  attempt: number;
  progress_percent: number | null;
  progress_text: string | null;
  enqueued_at: number;
  finished_at: number | null;
}

export function toCallState(callId: number, row: PaidCallRow, now: number): CallStateAnswer {
  const state = stateForClient(row, now);
  const { network, asset, payer, nonce } = row;
  const { progress_percent: percent, progress_text: text } = row;
  return {
    callId,
    payment: { network, asset, payer, nonce },
    state,
    attempt: row.attempt,
    ...(state === "running" && percent !== null && text !== null ? { progress: { percent, text } } : {}),
    enqueuedAt: row.enqueued_at,
    ...(row.finished_at === null ? {} : { finishedAt: row.finished_at }),
  };
}

function stateForClient({ state, visible_at }: PaidCallRow, now: number): CallStateAnswer["state"] {
  switch (state) {
    case "ready":
    case "delayed":
      return "queued";
    case "leased":
      // No runner works on it after its lease, although only the next claim changes the row.
      return visible_at !== null && visible_at > now ? "running" : "queued";
    case "dead":
      return "failed";
    case "held":
    case "succeeded":
    case "failed":
      return state;
  }
}

/** Counts of rows. A lease that has run out counts as `ready`, as in a lookup. */
export interface CountedRows {
  readonly payments: readonly { state: PaymentState; n: number }[];
  readonly calls: readonly { origin: JobCallOrigin; state: CallState; n: number }[];
  readonly results: readonly { state: "succeeded" | "failed"; n: number }[];
  readonly oldestReadyAt: number | null;
}

export function toTotals(counted: CountedRows): StoreTotals {
  const payments = { intent: 0, settled: 0, failed: 0, unresolved: 0 };
  for (const { state, n } of counted.payments) payments[state] = n;

  const calls = { held: 0, ready: 0, leased: 0, dead: 0 };
  const paidCalls = { ready: 0, leased: 0, done: 0, dead: 0 };
  for (const { origin, state, n } of counted.calls) {
    const total = state === "delayed" ? "ready" : state;
    calls[total] += n;
    if (origin === "x402" && total !== "held") paidCalls[total] += n;
  }
  for (const { state, n } of counted.results) paidCalls[state === "succeeded" ? "done" : "dead"] += n;
  const { oldestReadyAt } = counted;
  return { payments, calls, paidCalls, ...(oldestReadyAt === null ? {} : { oldestReadyAt }) };
}
