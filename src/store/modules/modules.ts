import { distinct } from "../../core/objects.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import type { Lookup } from "../list-dialect.ts";
import { type Change, REVENUE, type Reactions } from "../machine/changes.ts";
import { DEFERRED } from "../machine/deferred.ts";
import { ENDED } from "../machine/ended.ts";
import type { AnyModule, Asked, BeginGate, Commit, Limiting, Ordering, StoreModule } from "../module.ts";
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

/** Modules whose operations are methods of the store itself. */
const OF_CORE = [
  ADOPTED_PAYMENTS,
  CALLS,
  OFFERS,
  ONE_TIME_NONCES,
  OPERATOR_LISTS,
  PAYMENTS,
  REFUSED_PAYMENTS,
  REPORTS,
  SECRETS,
] as const;
export const CORE_MODULES = OF_CORE as readonly object[] as readonly AnyModule[];
const MODULES: readonly AnyModule[] = [
  ...CORE_MODULES,
  { on: DEFERRED },
  { on: REVENUE },
  { on: ENDED },
  ...PART_MODULES,
];

type NamesIn<Of extends "steps" | "lookups", Module = (typeof OF_CORE)[number]> = Module extends {
  readonly [Key in Of]: infer Operations;
}
  ? keyof Operations
  : never;
export type StepName = NamesIn<"steps">;
export type LookupName = NamesIn<"lookups">;

/** A step as a dialect runs it. The types of its input depend on the operation's name. */
export interface AnyStep {
  keys?(...input: readonly unknown[]): readonly RowKey[];
  callIds?(...input: readonly unknown[]): readonly number[];
  reactsFor?(...input: readonly unknown[]): readonly number[];
  orderKeys?(...input: readonly unknown[]): readonly string[];
  locks?(...input: readonly unknown[]): readonly { readonly name: string; readonly owner: string }[];
  run(commit: Commit, now: number, ...input: readonly unknown[]): unknown;
}
type AnyLookup = (asked: Asked, ...input: readonly unknown[]) => Lookup<unknown>;

/** Operations of modules that write. */
export const MODULE_STEPS = operationsOf<StepName, AnyStep>("steps");
/** Operations of modules that read. */
export const MODULE_LOOKUPS = operationsOf<LookupName, AnyLookup>("lookups");

/** @throws Error when two modules have an operation of one name */
function operationsOf<Name, Operation>(of: "steps" | "lookups"): readonly [Name, Operation][] {
  const all = MODULES.flatMap((module) => Object.entries(module[of] ?? {}));
  return [...distinct("operation of the store", all)] as unknown as readonly [Name, Operation][];
}

/** Names of the operations of modules. */
export const MODULE_OPERATIONS: readonly string[] = [...MODULE_STEPS, ...MODULE_LOOKUPS].map(
  ([name]) => name,
);

const FOR_OPERATOR = new Set<unknown>(MODULES.flatMap(({ forOperator = [] }) => forOperator));

/**
 * Returns true if only operators use a lookup. Such a lookup may be slow, because no lookup that a client waits for queues
 * behind it.
 */
export function isForOperator(name: LookupName): boolean {
  return FOR_OPERATOR.has(name);
}

/** Tables that every commit may read completely. */
export const SMALL_TABLES: readonly RowKey["table"][] = MODULES.flatMap(
  ({ smallTables = [] }) => smallTables,
);

type Reaction = NonNullable<Reactions[Change["kind"]]>;

const REACTIONS = new Map<string, Reaction[]>();
for (const { on = {} } of MODULES) {
  for (const [kind, reaction] of Object.entries(on) as [string, Reaction][])
    REACTIONS.set(kind, [...(REACTIONS.get(kind) ?? []), reaction]);
}

/** Returns the reactions of modules to changes of a kind. */
export function reactionsTo(kind: Change["kind"]): readonly Reaction[] {
  return REACTIONS.get(kind) ?? [];
}

/** Returns the rows that reactions to the end of a JobCall read. */
export function keysOfCall(callId: number): RowKey[] {
  return MODULES.flatMap(({ keysOfCall }) => keysOfCall?.(callId) ?? []);
}

/** Order of the JobCalls that have a key; undefined if no module orders JobCalls. */
export const ORDERING: Ordering | undefined = MODULES.find(
  ({ ordering }) => ordering !== undefined,
)?.ordering;

/** Limits on the JobCalls of a job; undefined if no module limits them. */
export const LIMITING: Limiting | undefined = MODULES.find(
  ({ limiting }) => limiting !== undefined,
)?.limiting;

/** Table with the IDs of reserved jobs; undefined if no module reserves jobs. */
export const RESERVED_JOBS: StoreModule<unknown>["reserving"] = MODULES.find(
  ({ reserving }) => reserving !== undefined,
)?.reserving;

const GATES: ReadonlyMap<string, BeginGate> = new Map(
  MODULES.flatMap(({ begins }) => (begins === undefined ? [] : [[begins.transferMethod, begins] as const])),
);

/** Returns the gate that decides whether a payment by a transfer method can begin; undefined if no module has a gate for it. */
export function gateOf({ transferMethod }: Pick<PaymentIntent, "transferMethod">): BeginGate | undefined {
  return GATES.get(transferMethod);
}

/** Returns true if a dead letter can be retried. */
export function canRetry(callId: number, rows: Pick<Rows, "find">): boolean {
  return MODULES.every((module) => module.canRetry?.(callId, rows) ?? true);
}
