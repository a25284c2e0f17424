import type { JobCallOrigin } from "../core/job-call.ts";
import { movedElsewhere, type PaymentState, transactionOf } from "../core/payment.ts";
import type { CallState as CallStateAnswer } from "./contract/call-lookup.ts";
import type { DeadLetter } from "./contract/dead-letter-box.ts";
import type { ModuleCharge } from "./module.ts";
import { PART_MODULES } from "./part-modules.ts";
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
  /** The state is `expired` if the call was paid for and its outcome was pruned. */
  state: CallState | "succeeded" | "failed" | "expired";
  visible_at: number | null;
  attempt: number;
  progress_percent: number | null;
  progress_text: string | null;
  /** Reason why it is a dead letter, or failed. */
  reason: string | null;
  enqueued_at: number;
  finished_at: number | null;
  /** HTTP status of its result; null if the runner named none. */
  status: number | null;
  amount: string;
  symbol: string;
  payment_state: PaymentState;
  /** Null if the job is not charged after it ran. `amount` is the charge once the charge is known. */
  ceiling: string | null;
  settlement: string | null;
}

const SHOWN = PART_MODULES.flatMap(({ shown }) => shown ?? []);

/**
 * SQL of the columns of a {@link PaidCallRow}: the columns of the call's payment, and the columns that modules of parts
 * show.
 */
export const PAYMENT_OF_CALL = [
  "payments.service_id, payments.job_index, payments.state AS payment_state, payments.ceiling, payments.settlement",
  "payments.amount, payments.symbol",
  ...SHOWN.map(({ columns }) => columns),
].join(", ");

/** SQL that joins a payment with the rows that modules of parts show. */
export const shownRows = (schema: string): string =>
  SHOWN.map(({ table }) => `LEFT JOIN ${schema}${table} ON ${table}.call_id = payments.call_id`).join(" ");

export function toCallState(callId: number, row: PaidCallRow, now: number): CallStateAnswer {
  const state = stateForClient(row, now);
  const additions = SHOWN.flatMap((shown) => shown.addition?.(row) ?? []);
  const { network, asset, payer, nonce, service_id, job_index: jobIndex, settlement } = row;
  const [ofModule] = SHOWN.flatMap((shown) => shown.charge?.(row) ?? []);
  const { progress_percent: percent, progress_text: text, reason } = row;
  return {
    callId,
    payment: { network, asset, payer, nonce },
    job: { serviceId: BigInt(service_id), jobIndex },
    ...(settlement === null || movedElsewhere(settlement)
      ? {}
      : { settlement: ofModule?.settlementWith(settlement) ?? settlement }),
    state,
    attempt: row.attempt,
    ...(state === "running" && percent !== null && text !== null ? { progress: { percent, text } } : {}),
    ...(state === "failed" && reason !== null ? { reason } : {}),
    status: row.status ?? undefined,
    ...chargeOf(row, ofModule),
    ...(additions.length === 0 ? {} : { additions }),
    enqueuedAt: row.enqueued_at,
    ...(row.finished_at === null || state === "running" ? {} : { finishedAt: row.finished_at }),
  };
}

function chargeOf(row: PaidCallRow, ofModule: ModuleCharge | undefined): Pick<CallStateAnswer, "charge"> {
  const { payment_state: state, ceiling, amount, symbol, settlement } = row;
  if (ofModule !== undefined) {
    const { settlementWith: _, ...charge } = ofModule;
    return { charge: { ...charge, symbol } };
  }
  if (ceiling === null || state === "intent") return {};
  const moved = movedElsewhere(settlement ?? undefined);
  const known = state === "authorized" ? {} : { amount };
  if (moved !== undefined) return { charge: { state, ceiling, ...known, symbol, moved } };
  const isAwaited = row.state === "succeeded" && (state === "settling" || state === "unresolved");
  const transaction = transactionOf(settlement ?? undefined);
  return {
    charge: {
      state,
      ceiling,
      ...known,
      symbol,
      ...(transaction === undefined ? {} : { transaction }),
      ...(isAwaited && { isAwaited }),
    },
  };
}

function stateForClient(row: PaidCallRow, now: number): CallStateAnswer["state"] {
  const state = stateAt(row, now);
  if (state === "succeeded" && row.ceiling !== null) return stateOfCharged(row.payment_state);
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

/** State of a finished call that is charged after it ran: its client gets the result only once the charge is certain. */
function stateOfCharged(payment: PaymentState): CallStateAnswer["state"] {
  if (payment === "failed") return "failed";
  return payment === "settled" || payment === "released" ? "succeeded" : "running";
}
