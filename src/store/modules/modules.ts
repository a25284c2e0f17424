import { distinct } from "../../core/objects.ts";
import type { Lookup } from "../list-dialect.ts";
import { DEFERRED } from "../machine/deferred.ts";
import { REVENUE } from "../machine/revenue.ts";
import type { AnyModule, Asked, Commit } from "../module.ts";
import { OPERATOR_LISTS } from "../operator-lists.ts";
import { PART_MODULES } from "../part-modules.ts";
import type { RowKey, Rows } from "../rows.ts";
import { ADOPTED_PAYMENTS } from "./adopted-payments.ts";
import { CALLS } from "./calls.ts";
import { OFFERS } from "./offers.ts";
import { ONE_TIME_NONCES } from "./one-time-nonces.ts";
import { PAYMENTS } from "./payments.ts";
import { REFUSED_PAYMENTS } from "./refused-payments.ts";
import { REPORTS } from "./reports.ts";
import { SECRETS } from "./secrets.ts";

const STEPS = {
  ...OFFERS.steps,
  ...SECRETS.steps,
  ...ONE_TIME_NONCES.steps,
  ...ADOPTED_PAYMENTS.steps,
  ...REFUSED_PAYMENTS.steps,
};

const LOOKUPS = {
  ...CALLS.lookups,
  ...PAYMENTS.lookups,
  ...OPERATOR_LISTS.lookups,
  ...OFFERS.lookups,
  ...ONE_TIME_NONCES.lookups,
  ...ADOPTED_PAYMENTS.lookups,
  ...REFUSED_PAYMENTS.lookups,
  ...REPORTS.lookups,
};

export type StepName = keyof typeof STEPS;
export type LookupName = keyof typeof LOOKUPS;

/** A step as a dialect runs it. Its input has the types that the operation's name says. */
export interface AnyStep {
  keys?(...input: readonly unknown[]): readonly RowKey[];
  callIds?(...input: readonly unknown[]): readonly number[];
  locks?(...input: readonly unknown[]): readonly { readonly name: string; readonly owner: string }[];
  run(commit: Commit, now: number, ...input: readonly unknown[]): unknown;
}
type AnyLookup = (asked: Asked, ...input: readonly unknown[]) => Lookup<unknown>;

/** Operations of modules that write. */
export const MODULE_STEPS = operationsOf<StepName, AnyStep>("steps", STEPS);
/** Operations of modules that read. */
export const MODULE_LOOKUPS = operationsOf<LookupName, AnyLookup>("lookups", LOOKUPS);

/** @throws Error when two modules have an operation of one name */
function operationsOf<Name, Operation>(
  of: "steps" | "lookups",
  ofCore: object,
): readonly [Name, Operation][] {
  const ofParts = PART_MODULES.flatMap((module) => Object.entries(module[of] ?? {}));
  const all = [...distinct("operation of the store", [...Object.entries(ofCore), ...ofParts])];
  return all as unknown as readonly [Name, Operation][];
}

const MODULES: readonly AnyModule[] = [{ on: DEFERRED }, { on: REVENUE }, ...PART_MODULES];

/** Tables that every commit may read as a whole. */
export const SMALL_TABLES: readonly RowKey["table"][] = MODULES.flatMap(
  ({ smallTables = [] }) => smallTables,
);

/** Reactions of modules to changes. */
export const REACTIONS = MODULES.flatMap(({ on }) => on ?? []);

/** Returns the rows that reactions to the end of a JobCall read. */
export function keysOfCall(callId: number): RowKey[] {
  return MODULES.flatMap(({ keysOfCall }) => keysOfCall?.(callId) ?? []);
}

/** Checks whether a dead letter can be retried. */
export function canRetry(callId: number, rows: Pick<Rows, "find">): boolean {
  return MODULES.every((module) => module.canRetry?.(callId, rows) ?? true);
}
