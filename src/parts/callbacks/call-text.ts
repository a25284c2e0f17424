import { type GetCallResponse, timeText } from "../../commands/operator-client.ts";
import { type Columns, counted, programName, shortText, tableOf } from "../../commands/output.ts";
import { addPartText, type PartText } from "../../commands/part-text.ts";
import { nameIn } from "../../operator/messages.ts";
import { CALLBACK_STATES } from "./operator-states.ts";

type Callback = GetCallResponse["callbacks"][number];

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

/** Callbacks of one JobCall, and callbacks that were given up. */
const TEXT: PartText = {
  problems: ({ callbacks }) =>
    callbacks === undefined || callbacks.dead === 0n
      ? []
      : [`${counted(callbacks.dead, "callback")} given up: ${programName()} callbacks list --state dead`],

  call({ callbacks }) {
    const { CALL: _, ...columns } = CALLBACK_COLUMNS;
    return callbacks.length === 0 ? [] : [tableOf(callbacks, columns)];
  },
};

export function addTo(): void {
  addPartText(TEXT);
}
