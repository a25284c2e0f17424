import type { GatewayEvent } from "../core/events.ts";
import type { JobCall } from "../core/job-call.ts";
import type { NewCall } from "./new-call.ts";
import { PART_OPERATIONS } from "./part-modules.ts";
import type { Store } from "./store.ts";

/** Methods of the Store that reach the database through a channel, in the same way for every dialect. */
export type StoreMethods = Omit<
  Store,
  "of" | "status" | "useUrl" | "close" | "onWork" | "isShared" | "sharedLeases"
>;

/** Operations by name. `probe` is the smallest write: it shows whether the store can write again. */
type Methods = StoreMethods & { probe(): Promise<void> };
export type OperationName = keyof Methods;

/** Arguments of an operation as a channel takes them: those of the Store's method, with JobCalls encoded. */
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
  readonly channel: "read" | "write";
  /** A lookup for the operator, which may be slow: no lookup that a client waits for queues behind it. */
  readonly isForOperator?: true;
  /** Runners may have new work as soon as this is committed. */
  readonly makesWork?: true | ((...input: Input<Name>) => boolean);
  /** The operation's name in traces; absent where it gets no span. */
  readonly span?: string;
}

/** The operations of every store. Writes share commits, in the order in which they are called. */
export const OPERATIONS = {
  accept: { channel: "write", makesWork: true, span: "accept" },
  acceptOnce: { channel: "write", makesWork: true, span: "accept" },

  beginPayment: { channel: "write", makesWork: ({ charge }) => charge !== "before", span: "begin" },
  settlePayment: { channel: "write", makesWork: true, span: "settle" },
  failPayment: { channel: "write", span: "fail" },
  leavePaymentUnresolved: { channel: "write" },
  confirmPayment: { channel: "write" },
  closePayment: { channel: "write", makesWork: (_key, { as }) => as === "paid" },
  contradictPayment: { channel: "write" },
  endWatches: { channel: "write" },
  endAuthorization: { channel: "write" },
  findPayment: { channel: "read" },
  findPaymentByFingerprint: { channel: "read" },
  findPaymentByPurchaseName: { channel: "read" },
  isNonceUsed: { channel: "read" },
  hasLoss: { channel: "read" },
  listBought: { channel: "read" },
  adoptPayment: { channel: "write" },
  findAdoptedPayments: { channel: "read" },
  listUndecided: { channel: "read" },
  listEndingAuthorizations: { channel: "read" },

  saveRefusedPayments: { channel: "write" },
  listRefusedPayments: { channel: "read", isForOperator: true },

  holdLock: { channel: "write" },

  claim: { channel: "write" },
  expireLeases: { channel: "write" },
  ack: { channel: "write" },
  appendResult: { channel: "write" },
  retry: { channel: "write", makesWork: (_lease, { delayMs }) => delayMs === 0 },
  fail: { channel: "write" },
  extend: { channel: "write" },
  release: { channel: "write", makesWork: (_lease, { excused }) => excused },
  nextDueMs: { channel: "read" },
  ceilings: { channel: "read" },
  jobsOf: { channel: "read" },

  listCalls: { channel: "read", isForOperator: true },
  findCallDetails: { channel: "read", isForOperator: true },
  listPayments: { channel: "read", isForOperator: true },
  listDeadLetterGroups: { channel: "read", isForOperator: true },
  findDeadLetter: { channel: "read", isForOperator: true },
  retryDeadLetter: { channel: "write", makesWork: true },
  dropDeadLetter: { channel: "write" },

  findCall: { channel: "read" },
  findResult: { channel: "read" },
  readResult: { channel: "read" },
  resultBytes: { channel: "read", isForOperator: true },

  saveOffers: { channel: "write" },
  findOffers: { channel: "read" },
  keepSecret: { channel: "write" },
  useNonce: { channel: "write" },

  prune: { channel: "write" },
  forgetResult: { channel: "write" },
  shrink: { channel: "write" },

  totals: { channel: "read", isForOperator: true },
  revenue: { channel: "read", isForOperator: true },
  probe: { channel: "write" },
} as const satisfies { readonly [Name in OperationName]: OperationKind<Name> };

/** Checks whether runners may have new work once the operation is committed. */
export function makesWork<Name extends OperationName>(name: Name, input: Input<Name>): boolean {
  const { makesWork } = kindOf(name);
  return typeof makesWork === "function" ? makesWork(...(input as unknown as never)) : makesWork === true;
}

/** Checks whether an operation runs after all others of its batch, so that it gets the work that those make. */
export function runsLast({ name }: Operation): boolean {
  return name === "claim" || name === "expireLeases";
}

/** Returns how the store runs an operation. */
export function kindOf(name: OperationName): OperationKind<never> {
  return OPERATIONS[name] ?? PART_OPERATIONS.get(name);
}

/** Names of all operations, in one order in all threads. */
export const OPERATION_NAMES = [...Object.keys(OPERATIONS), ...PART_OPERATIONS.keys()] as OperationName[];

type NameIn<Channel extends "read" | "write"> = {
  [Name in OperationName]: (typeof OPERATIONS)[Name]["channel"] extends Channel ? Name : never;
}[OperationName];
export type ReadName = NameIn<"read">;
export type WriteName = NameIn<"write">;

/** A change that is durable: the method that made it, its arguments and its outcome. */
export type Committed =
  | {
      [Name in WriteName]: {
        readonly operation: Name;
        readonly input: Parameters<Methods[Name]>;
        readonly outcome: Outcome<Name>;
      };
    }[WriteName]
  | CommittedStep;

/** A change that an operation of a part made. */
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

/** A batch takes this part of the bytes in chunks that it takes in JobCalls. */
const CHUNK_WEIGHT = 4;

/** Bytes of the JobCall or the result that an operation carries. They bound the size of a batch. */
export function payloadBytes(operation: Operation): number {
  const { name, input } = operation;
  // A batch has a few chunks at most, so that no commit waits long for them.
  if (name === "appendResult") return input[2].byteLength * CHUNK_WEIGHT;
  const result = name === "ack" ? input[1] : undefined;
  return (newCallOf(operation)?.encoded.byteLength ?? 0) + (result?.body.byteLength ?? 0);
}
