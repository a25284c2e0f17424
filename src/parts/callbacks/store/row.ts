import type { Callback, CallbackState } from "./ledger.ts";

/** Columns of a row of `callbacks`. */
export interface CallbackRow {
  id: number;
  event: string;
  call_id: number;
  at: number;
  data: string;
  url: string;
  host: string;
  is_buyers: 0 | 1;
  state: CallbackState;
  attempts: number;
  due_at: number;
  give_up_at: number;
  reason: string | null;
  ended_at: number | null;
}

/** Row of an operator's URL. `events` has a blank around each event. */
export interface EndpointRow {
  readonly url: string;
  readonly host: string;
  readonly events: string;
}

export const CALLBACK_COLUMNS = [
  "id",
  "event",
  "call_id",
  "at",
  "data",
  "url",
  "host",
  "is_buyers",
  "state",
  "attempts",
  "due_at",
  "give_up_at",
  "reason",
  "ended_at",
] as const satisfies readonly (keyof CallbackRow)[];

export const ENDPOINT_COLUMNS = ["url", "host", "events"] as const satisfies readonly (keyof EndpointRow)[];

export function toCallback(row: CallbackRow): Callback {
  return {
    id: row.id,
    event: row.event,
    callId: row.call_id,
    at: row.at,
    data: row.data,
    url: row.url,
    host: row.host,
    isBuyers: row.is_buyers === 1,
    state: row.state,
    attempts: row.attempts,
    dueAt: row.due_at,
    ...(row.reason === null ? {} : { reason: row.reason }),
    ...(row.ended_at === null ? {} : { endedAt: row.ended_at }),
  };
}
