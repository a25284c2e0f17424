import type { JobCallOrigin } from "../core/job-call.ts";
import { movedElsewhere, type PaymentState } from "../core/payment.ts";
import type { CallState as CallStateAnswer } from "./contract/call-lookup.ts";
import type { DeadLetter } from "./contract/dead-letter-box.ts";
import type { RefundRow } from "./refund-row.ts";
import { type CallState, stateAt } from "./rules/leases.ts";

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
  service_id: string;
  job_index: number;
  /** Paid, and how it ended was pruned: `expired`. */
  state: CallState | "succeeded" | "failed" | "expired";
  visible_at: number | null;
  attempt: number;
  progress_percent: number | null;
  progress_text: string | null;
  /** Why it is dead or failed. */
  reason: string | null;
  enqueued_at: number;
  finished_at: number | null;
  refund_state: RefundRow["state"] | null;
  is_approved: 0 | 1 | null;
  amount: string;
  symbol: string;
  refund_hash: string | null;
  refund_reason: string | null;
  payment_state: PaymentState;
  /** Not null: paid by use, and `amount` is its charge once that is known. */
  ceiling: string | null;
  settlement: string | null;
}

/** SQL of the columns of a {@link PaidCallRow} that show the call's payment and refund. */
export const PAYMENT_OF_CALL = `payments.service_id, payments.job_index, payments.state AS payment_state, payments.ceiling, payments.settlement,
          refunds.state AS refund_state, is_approved, payments.amount, payments.symbol,
          refunds.hash AS refund_hash, refunds.reason AS refund_reason`;

export function toCallState(callId: number, row: PaidCallRow, now: number): CallStateAnswer {
  const state = stateForClient(row, now);
  const { network, asset, payer, nonce, service_id, job_index: jobIndex, settlement } = row;
  const { progress_percent: percent, progress_text: text, reason } = row;
  return {
    callId,
    payment: { network, asset, payer, nonce },
    job: { serviceId: BigInt(service_id), jobIndex },
    ...(settlement === null || movedElsewhere(settlement) ? {} : { settlement }),
    state,
    attempt: row.attempt,
    ...(state === "running" && percent !== null && text !== null ? { progress: { percent, text } } : {}),
    ...(state === "failed" && reason !== null ? { reason } : {}),
    ...(state === "failed" ? refundOf(row) : {}),
    ...chargeOf(row),
    enqueuedAt: row.enqueued_at,
    ...(row.finished_at === null || state === "running" ? {} : { finishedAt: row.finished_at }),
  };
}

function chargeOf(row: PaidCallRow): Pick<CallStateAnswer, "charge"> {
  const { payment_state: state, ceiling, amount, symbol, settlement } = row;
  if (ceiling === null || state === "intent") return {};
  const moved = movedElsewhere(settlement ?? undefined);
  const known = state === "authorized" ? {} : { amount };
  if (moved !== undefined) return { charge: { state, ceiling, ...known, symbol, moved } };
  const { transaction = "" } = JSON.parse(settlement ?? "{}") as { transaction?: string };
  return { charge: { state, ceiling, ...known, symbol, ...(transaction === "" ? {} : { transaction }) } };
}

function refundOf(row: PaidCallRow): Pick<CallStateAnswer, "refund"> {
  const { refund_state: state, is_approved, amount, symbol, refund_hash, refund_reason } = row;
  if (state === null || state === "cancelled") return {};
  const refund = { state, isApproved: is_approved === 1, amount, symbol };
  return {
    refund: {
      ...refund,
      ...(refund_hash === null ? {} : { transaction: refund_hash }),
      ...(refund_reason === null ? {} : { reason: refund_reason }),
    },
  };
}

function stateForClient(row: PaidCallRow, now: number): CallStateAnswer["state"] {
  const state = stateAt(row, now);
  if (state === "succeeded" && row.ceiling !== null) return stateOfUsed(row.payment_state);
  switch (state) {
    case "ready":
      return "queued";
    case "leased":
      return "running";
    case "dead":
      return "failed";
    case "held":
    case "succeeded":
    case "failed":
    case "expired":
      return state;
  }
}

/** State of a finished call that is paid by use: the result is given out for a certain charge only. */
function stateOfUsed(payment: PaymentState): CallStateAnswer["state"] {
  if (payment === "failed") return "failed";
  return payment === "settled" || payment === "released" ? "succeeded" : "running";
}
