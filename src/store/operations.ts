import type { GatewayEvent } from "../core/events.ts";
import type { JobCall } from "../core/job-call.ts";
import { beginsReady } from "../core/payment.ts";
import { type LookupName, MODULE_OPERATIONS, type StepName } from "./modules/modules.ts";
import type { NewCall } from "./new-call.ts";
import type { Store } from "./store.ts";

/** Methods of the Store that reach the database through a channel, in the same way for every dialect. */
export type StoreMethods = Omit<
  Store,
  "of" | "status" | "useUrl" | "close" | "onWork" | "isShared" | "sharedLeases"
>;

/** Operations by name. `probe` is the smallest write, which shows whether the store can write again. */
type Methods = StoreMethods & { probe(): Promise<void> };
export type OperationName = keyof Methods;
type OwnName = Exclude<OperationName, StepName | LookupName>;

/** Arguments of an operation as a channel carries them: the arguments of the Store's method, with JobCalls encoded. */
export type Input<Name extends OperationName> = Encoded<Parameters<Methods[Name]>>;
type Encoded<Arguments extends readonly unknown[]> = {
  [Index in keyof Arguments]: Arguments[Index] extends JobCall ? NewCall : Arguments[Index];
};
export type Outcome<Name extends OperationName> = Awaited<ReturnType<Methods[Name]>>;

/** One operation as plain data. */
export type Operation<Name extends OperationName = OperationName> = {
  [N in Name]: { readonly name: N; readonly input: Input<N> };
}[Name];

interface OperationKind<Name extends OperationName> {
  /** Set if the operation can make work for runners, which they can claim once the operation is committed. */
  readonly makesWork?: true | ((...input: Input<Name>) => boolean);
  /** The operation's name in traces; undefined if the operation has no span. */
  readonly span?: string;
}

/**
 * The operations of every store, in addition to the operations of its modules. All of them write. Writes share commits, in
 * the order of the calls.
 */
export const OPERATIONS = {
  accept: { makesWork: true, span: "accept" },
  acceptOnce: { makesWork: true, span: "accept" },

  beginPayment: { makesWork: beginsReady, span: "begin" },
  settlePayment: { makesWork: true, span: "settle" },
  finalizePayment: {},
  failPayment: { span: "fail" },
  leavePaymentUnresolved: {},
  confirmPayment: {},
  closePayment: { makesWork: (_key, { as }) => as === "paid" },
  contradictPayment: {},
  endWatches: {},
  endAuthorization: {},

  holdLock: {},

  claim: {},
  expireLeases: {},
  ack: {},
  appendResult: {},
  retry: { makesWork: (_lease, { delayMs }) => delayMs === 0 },
  fail: {},
  extend: {},
  release: { makesWork: (_lease, { excused }) => excused },

  withhold: {},
  retryDeadLetter: { makesWork: true },
  dropDeadLetter: {},

  prune: {},
  forgetResult: {},
  shrink: {},

  probe: {},
} as const satisfies { readonly [Name in OwnName]: OperationKind<Name> };

/** Checks whether runners may have new work once the operation is committed. */
export function makesWork<Name extends OperationName>(name: Name, input: Input<Name>): boolean {
  const makesWork = kindOf(name)?.makesWork;
  return typeof makesWork === "function" ? makesWork(...(input as unknown as never)) : makesWork === true;
}

/**
 * Checks whether an operation runs after all other operations of its batch, so that it returns the work that they add.
 */
export function runsLast({ name }: Operation): boolean {
  return name === "claim" || name === "expireLeases";
}

/** Returns how the store runs one of its own operations; undefined for an operation of a module. */
export function kindOf(name: OperationName): OperationKind<never> | undefined {
  return name in OPERATIONS ? OPERATIONS[name as OwnName] : undefined;
}

/** Names of all operations, in one order in all threads. */
export const OPERATION_NAMES = [...Object.keys(OPERATIONS), ...MODULE_OPERATIONS] as OperationName[];

export type ReadName = LookupName;
export type WriteName = OwnName | StepName;

/** A change that is durable: the method that made it, its arguments and its outcome. */
export type Committed =
  | {
      [Name in OwnName]: {
        readonly operation: Name;
        readonly input: Parameters<Methods[Name]>;
        readonly outcome: Outcome<Name>;
      };
    }[OwnName]
  | CommittedStep;

/** A change that an operation of a module made. */
interface CommittedStep {
  readonly operation: "step";
  readonly name: string;
  readonly input: readonly unknown[];
  readonly outcome: unknown;
  readonly event: GatewayEvent | undefined;
}

/** The JobCall that an operation adds. */
function newCallOf({ name, input }: Operation): NewCall | undefined {
  if (name === "accept" || name === "acceptOnce") return input[0];
  return name === "beginPayment" ? input[1] : undefined;
}

/** Weight of a chunk's bytes in the size of a batch, so that a batch holds fewer bytes in chunks than in JobCalls. */
const CHUNK_WEIGHT = 4;

/** Bytes of the JobCall or the result that an operation carries. These bytes bound the size of a batch. */
export function payloadBytes(operation: Operation): number {
  const { name, input } = operation;
  // The weight limits a batch to a few chunks, so that no commit waits long for them.
  if (name === "appendResult") return input[2].byteLength * CHUNK_WEIGHT;
  const result = name === "ack" ? input[1] : undefined;
  return (newCallOf(operation)?.encoded.byteLength ?? 0) + (result?.body.byteLength ?? 0);
}
