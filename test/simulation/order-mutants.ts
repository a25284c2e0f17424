import type { WorldMutant } from "./mutant.ts";

const MODULE = "parts/flow/store/module.ts";
const LIMITS = "parts/flow/store/limits.ts";
const parts = ["order and limits"] as const;

/** Removed guards of order and limits. */
export const ORDER_MUTANTS: readonly WorldMutant[] = [
  {
    name: "a JobCall does not wait for others of its key",
    parts,
    seed: 209,
    file: "store/sqlite/operations/new-calls.ts",
    ...{ from: 'this.#newCalls.setState(callId, "held");', to: 'this.#newCalls.setState(callId, "ready");' },
  },
  {
    name: "the newest JobCall of a key is next",
    parts,
    seed: 14,
    file: "store/sqlite/operations/effects.ts",
    ...{
      from: "(SELECT min(call_id) FROM job_calls INDEXED",
      to: "(SELECT max(call_id) FROM job_calls INDEXED",
    },
  },
  {
    name: "a key goes on after a dead letter that holds it up",
    parts,
    seed: 14,
    ...{
      file: MODULE,
      from: "if (key?.holds_on_dead !== 1) return",
      to: "if (key?.holds_on_dead !== 2) return",
    },
  },
  {
    name: "a dead letter that is retried does not wait for others of its key",
    parts,
    seed: 14,
    ...{ file: MODULE, from: "if (row !== undefined && row.held_by !== callId) return false;", to: "" },
  },
  {
    name: "a JobCall that is next in its key stays held",
    parts,
    seed: 14,
    file: "store/sqlite/operations/effects.ts",
    ...{ from: 'else if (!this.#newCalls.setState(callId, "ready")) this.#ready.push(callId);', to: "" },
  },
  {
    name: "JobCalls that are out do not count against a concurrency",
    parts,
    seed: 66,
    ...{ file: LIMITS, from: "concurrency - out)", to: "concurrency)" },
  },
  {
    name: "a rate forgets JobCalls too early",
    parts,
    seed: 55,
    ...{ file: LIMITS, from: "at > now - rate.perMs)", to: "at > now - rate.perMs / 2)" },
  },
];
