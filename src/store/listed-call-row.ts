import type { JobCallOrigin } from "../core/job-call.ts";
import type { CallDetails, ListedCall, ListedState } from "./contract/operator-lists.ts";
import type { CallStep } from "./rules/call-steps.ts";
import { type CallState, stateAt } from "./rules/leases.ts";

/** Columns of a call in a list, from `job_calls` or `finished_calls`, and of its payment if it has one. */
export interface ListedCallRow {
  call_id: number;
  origin: JobCallOrigin;
  job_id: string;
  service_id: string;
  state: CallState | "succeeded" | "failed";
  visible_at: number | null;
  attempts: number;
  subscriber: string | null;
  claimed_at: number | null;
  reason: string | null;
  enqueued_at: number;
  finished_at: number | null;
  /** HTTP status of the result; null if the runner named none. */
  status: number | null;
  network: string | null;
  asset: string | null;
  payer: string | null;
  amount: string | null;
  symbol: string | null;
  /** Current time of the store. */
  now: number;
}

export interface CallDetailsRow extends ListedCallRow {
  /** JSON, parsed or not. */
  history: string | readonly CallStep[] | null;
  /** libsql returns a bare ArrayBuffer. */
  head: Uint8Array | ArrayBuffer | null;
  result_bytes: number | null;
  charge_so_far: string | null;
}

/** Columns of a {@link CallDetailsRow}. */
export const CALL_DETAILS_COLUMNS = [
  ...["call_id", "origin", "job_id", "service_id", "state", "visible_at", "attempts", "subscriber"],
  ...["claimed_at", "reason", "enqueued_at", "finished_at", "status", "head", "result_bytes"],
  ...["charge_so_far", "network", "asset", "payer", "amount", "symbol", "history", "now"],
] as const satisfies readonly (keyof CallDetailsRow)[];

export function toListedCall(row: ListedCallRow): ListedCall {
  const { subscriber, claimed_at, reason, visible_at, finished_at, network, asset, payer, amount, symbol } =
    row;
  const isPaid = network !== null && asset !== null && payer !== null && amount !== null && symbol !== null;
  return {
    callId: row.call_id,
    origin: row.origin,
    jobId: BigInt(row.job_id),
    serviceId: BigInt(row.service_id),
    state: listedState(row),
    attempts: row.attempts,
    enqueuedAt: row.enqueued_at,
    // A suspect, which no runner has, also keeps its subscriber.
    subscriber: claimed_at === null ? undefined : (subscriber ?? undefined),
    reason: reason ?? undefined,
    dueAt: visible_at === null || visible_at <= row.now ? undefined : visible_at,
    finishedAt: finished_at ?? undefined,
    status: row.status ?? undefined,
    payment: isPaid ? { network, asset, payer, amount, symbol } : undefined,
  };
}

export function toCallDetails(row: CallDetailsRow): CallDetails {
  const { history, claimed_at, head, result_bytes, charge_so_far } = row;
  return {
    ...toListedCall(row),
    steps: typeof history === "string" ? JSON.parse(history) : (history ?? []),
    claimedAt: claimed_at ?? undefined,
    head: head === null ? undefined : new Uint8Array(head),
    resultBytes: result_bytes ?? undefined,
    chargeSoFar: charge_so_far ?? undefined,
  };
}

function listedState(row: ListedCallRow): ListedState {
  const state = stateAt(row, row.now);
  if (state === "succeeded") return "done";
  if (state === "failed") return row.status === null ? "dropped" : "failed";
  return state;
}
