import { CALLBACK_STATES, nameIn } from "../operator/messages.ts";
import { type Callback, timeText } from "./operator-client.ts";
import { type Columns, shortText, tableOf } from "./output.ts";

export const CALLBACK_COLUMNS: Columns<Callback> = {
  ID: ({ id }) => String(id),
  STATE: ({ state }) => nameIn(CALLBACK_STATES, state) ?? "-",
  EVENT: ({ event }) => event,
  CALL: ({ callId }) => String(callId),
  "HAPPENED AT": ({ happenedAt }) => timeText(happenedAt),
  TRIES: ({ attempts }) => String(attempts),
  NEXT: ({ dueAt }) => timeText(dueAt),
  URL: ({ url, toBuyer }) => (toBuyer ? `${url} (buyer's)` : url),
  REASON: ({ reason }) => shortText(reason) || "-",
};

/** Table of one call's callbacks; empty if there are none. */
export function callbacksText(callbacks: readonly Callback[]): string {
  const { CALL: _, ...columns } = CALLBACK_COLUMNS;
  return callbacks.length === 0 ? "" : tableOf(callbacks, columns);
}
