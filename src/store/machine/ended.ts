import { hasFailed } from "../../core/result-answer.ts";
import type { Table } from "../rows.ts";
import { type Change, count, type Effect, type Known, paymentOf, type Reactions } from "./changes.ts";

/**
 * Kinds of the counts of ended payments and paid JobCalls. The prefix `used_`: payments that are charged after their jobs.
 * `done` and `dead`: results. `uncharged`: dead JobCalls, dropped or not, of released payments.
 */
export type EndedName =
  | "settled"
  | "failed"
  | "used_settled"
  | "used_failed"
  | "used_released"
  | "done"
  | "dead"
  | "uncharged";

interface EndedRow {
  readonly name: EndedName;
  /** Postgres has several slots for each count ({@link Rows.count}). */
  readonly slot: number;
  readonly n: string;
}

const TABLE: Table<EndedRow, "name" | "slot"> = {
  name: "ended",
  key: ["name", "slot"],
  columns: ["name", "slot", "n"],
};

const counted = (name: EndedName, n: "1" | "-1" = "1"): Effect => count(TABLE, { name, slot: 0, n });

/**
 * Counts of ended payments and JobCalls. The counts are stored, and pruning does not change them, because counting a
 * million rows takes a tenth of a second.
 */
export const ENDED: Reactions = {
  paymentDecided({ payment: { state, ceiling }, from }) {
    if (ceiling === null && state === "settled")
      return from === "failed" ? [counted("settled"), counted("failed", "-1")] : [counted("settled")];
    if (state !== "settled" && state !== "failed" && state !== "released") return [];
    return [counted(ceiling === null ? (state as "failed") : `used_${state}`)];
  },

  finished(change, known) {
    if (change.call.origin !== "x402") return [];
    if (!hasFailed(change.status)) return [counted("done")];
    return [counted("dead"), ...(change.charge === null ? [] : uncharged(change, known))];
  },

  deadLettered: uncharged,

  dropped: ({ call }) => (call.origin === "x402" ? [counted("dead")] : []),
};

/** Counts a failed JobCall whose payment was released, or is released because the JobCall failed. */
function uncharged({ call }: Extract<Change, { kind: "finished" | "deadLettered" }>, known: Known): Effect[] {
  const state = paymentOf(call, known)?.state;
  return state === "authorized" || state === "released" ? [counted("uncharged")] : [];
}
