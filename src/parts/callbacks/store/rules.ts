import { CALLBACK_TRIED_MS, type CallbackEndpoint, type CallbackOutcome } from "./ledger.ts";
import type { CallbackRow, EndpointRow } from "./row.ts";

/** @returns the callback after an attempt; undefined if it is not pending, or if the attempt is already recorded */
export function afterAttempt(
  row: CallbackRow | undefined,
  attempts: number,
  outcome: CallbackOutcome,
  now: number,
): CallbackRow | undefined {
  if (row?.state !== "pending" || row.attempts !== attempts) return undefined;
  const tried = { ...row, attempts: attempts + 1 };
  if (outcome.kind === "sent") return { ...tried, state: "sent", reason: null, ended_at: now };
  const { reason } = outcome;
  const isDead = outcome.kind === "dead" || now + outcome.delayMs > row.give_up_at;
  return isDead
    ? { ...tried, state: "dead", reason, ended_at: now }
    : { ...tried, reason, due_at: now + outcome.delayMs };
}

/** @returns the callback that is due now; undefined if it was sent */
export function retriedNow(row: CallbackRow | undefined, now: number): CallbackRow | undefined {
  if (row === undefined || row.state === "sent") return undefined;
  return { ...row, state: "pending", due_at: now, give_up_at: now + CALLBACK_TRIED_MS, ended_at: null };
}

export function toEndpointRow({ url, events }: CallbackEndpoint): EndpointRow {
  return { url, host: new URL(url).host, events: ` ${events.join(" ")} ` };
}
