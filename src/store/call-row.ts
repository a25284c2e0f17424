import type { JobCallOrigin } from "../core/job-call.ts";
import type { PaymentState } from "../core/payment.ts";
import type { CallState as CallStateAnswer } from "./contract/call-lookup.ts";
import type { DeadLetter } from "./contract/dead-letter-box.ts";
import type { RefundRow } from "./refund-row.ts";
import type { CallState } from "./rules/leases.ts";
import type { RefundSum, StoreTotals } from "./store.ts";

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
export const PAYMENT_OF_CALL = `payments.state AS payment_state, payments.ceiling, payments.settlement,
          refunds.state AS refund_state, is_approved, payments.amount, payments.symbol,
          refunds.hash AS refund_hash, refunds.reason AS refund_reason`;

export function toCallState(callId: number, row: PaidCallRow, now: number): CallStateAnswer {
  const state = stateForClient(row, now);
  const { network, asset, payer, nonce } = row;
  const { progress_percent: percent, progress_text: text, reason } = row;
  return {
    callId,
    payment: { network, asset, payer, nonce },
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
  const { transaction = "" } = JSON.parse(settlement ?? "{}") as { transaction?: string };
  const known = state === "authorized" ? {} : { amount };
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
  const { state, visible_at, ceiling, payment_state } = row;
  if (state === "succeeded" && ceiling !== null) return stateOfUsed(payment_state);
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
    case "expired":
      return state;
  }
}

/** State of a finished call that is paid by use: the result is given out for a certain charge only. */
function stateOfUsed(payment: PaymentState): CallStateAnswer["state"] {
  if (payment === "failed") return "failed";
  return payment === "settled" || payment === "released" ? "succeeded" : "running";
}

/** Counts of rows. A lease that has run out counts as `ready`, as in a lookup. */
export interface CountedRows {
  readonly payments: readonly { state: PaymentState; n: number }[];
  /** Those among `payments` that are paid by use. */
  readonly byUse: readonly { state: UsedState; n: number }[];
  readonly calls: readonly { origin: JobCallOrigin; state: CallState; n: number }[];
  readonly results: readonly { state: "succeeded" | "failed"; n: number }[];
  /** Entries that were pruned, by the names of countedKinds. */
  readonly pruned: readonly { name: keyof typeof PRUNED; n: number }[];
  /** Dead paid JobCalls that their buyers were not charged for. */
  readonly uncharged: number;
  readonly oldestReadyAt: number | null;
  /** Dead paid JobCalls that were not sold with `on_failure` keep. */
  readonly refundable: number;
  /** Without cancelled ones. */
  readonly refunds: readonly (Omit<RefundSum, "amount" | "oldestAt"> & {
    amount: string;
    oldest_at: number;
  })[];
}

type UsedState = Exclude<PaymentState, "intent">;

/** Totals that a pruned entry counts in. */
const PRUNED = {
  settled: { payment: "settled" },
  failed: { payment: "failed" },
  used_settled: { payment: "settled", byUse: "settled" },
  used_failed: { payment: "failed", byUse: "failed" },
  used_released: { payment: "released", byUse: "released" },
  done: { call: "done" },
  dead: { call: "dead" },
  uncharged: { call: "dead", isUncharged: true },
} as const satisfies Record<
  string,
  {
    readonly payment?: PaymentState;
    readonly byUse?: UsedState;
    readonly call?: "done" | "dead";
    readonly isUncharged?: true;
  }
>;

export function toTotals(counted: CountedRows): StoreTotals {
  const byUse = { authorized: 0, settling: 0, settled: 0, released: 0, failed: 0, unresolved: 0 };
  const payments = { intent: 0, ...byUse };
  for (const { state, n } of counted.payments) payments[state] = n;
  for (const { state, n } of counted.byUse) byUse[state] = n;

  const calls = { held: 0, ready: 0, leased: 0, dead: 0 };
  const paidCalls = { ready: 0, leased: 0, done: 0, dead: 0 };
  for (const { origin, state, n } of counted.calls) {
    const total = state === "delayed" ? "ready" : state;
    calls[total] += n;
    if (origin === "x402" && total !== "held") paidCalls[total] += n;
  }
  for (const { state, n } of counted.results) paidCalls[state === "succeeded" ? "done" : "dead"] += n;
  let { uncharged } = counted;
  for (const { name, n } of counted.pruned) {
    const counts = PRUNED[name];
    if ("payment" in counts) payments[counts.payment] += n;
    if ("byUse" in counts) byUse[counts.byUse] += n;
    if ("call" in counts) paidCalls[counts.call] += n;
    if ("isUncharged" in counts) uncharged += n;
  }
  const { oldestReadyAt, refundable } = counted;
  const refunds = counted.refunds.map(({ amount, oldest_at: oldestAt, ...sum }) => ({
    ...sum,
    amount: BigInt(amount),
    oldestAt,
  }));
  const declined = refunds.filter(({ state }) => state === "declined");
  const kept =
    paidCalls.dead - uncharged - refundable + declined.reduce((sum, { refunds }) => sum + refunds, 0);
  const oldest = oldestReadyAt === null ? {} : { oldestReadyAt };
  return { payments, byUse, calls, paidCalls, kept, uncharged, refunds, ...oldest };
}
