import type { Lookup } from "../list-dialect.ts";
import type { Asked, RowKey, Rows, StoreModule } from "../module.ts";
import { OPERATOR_LISTS } from "../operator-lists.ts";
import { ADOPTED_PAYMENTS } from "./adopted-payments.ts";
import { BOOKS } from "./books.ts";
import { CALLER_NONCES } from "./caller-nonces.ts";
import { OFFERS } from "./offers.ts";
import { QUOTES } from "./quotes.ts";
import { REFUSED_PAYMENTS } from "./refused-payments.ts";
import { SECRETS } from "./secrets.ts";

const STEPS = {
  ...OFFERS.steps,
  ...QUOTES.steps,
  ...SECRETS.steps,
  ...CALLER_NONCES.steps,
  ...ADOPTED_PAYMENTS.steps,
  ...REFUSED_PAYMENTS.steps,
} satisfies StoreModule["steps"];

const LOOKUPS = {
  ...OPERATOR_LISTS.lookups,
  ...BOOKS.lookups,
  ...OFFERS.lookups,
  ...QUOTES.lookups,
  ...CALLER_NONCES.lookups,
  ...ADOPTED_PAYMENTS.lookups,
  ...REFUSED_PAYMENTS.lookups,
} satisfies StoreModule["lookups"];

export type StepName = keyof typeof STEPS;
export type LookupName = keyof typeof LOOKUPS;

/** A step as a dialect runs it. Its input has the types that the operation's name says. */
interface AnyStep {
  keys(...input: readonly unknown[]): readonly RowKey[];
  run(rows: Rows, now: number, ...input: readonly unknown[]): unknown;
}
type AnyLookup = (asked: Asked, ...input: readonly unknown[]) => Lookup<unknown>;

/** Operations of modules that write. */
export const MODULE_STEPS = Object.entries(STEPS) as unknown as readonly [StepName, AnyStep][];
/** Operations of modules that read. */
export const MODULE_LOOKUPS = Object.entries(LOOKUPS) as unknown as readonly [LookupName, AnyLookup][];
