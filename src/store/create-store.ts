import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import { type JobCall, type JobCallEncoder, orderKeyOf } from "../core/job-call.ts";
import type { PaymentKey } from "../core/payment.ts";
import type { Tracing } from "../core/telemetry.ts";
import type { AnyModule } from "./module.ts";
import { CORE_MODULES } from "./modules/modules.ts";
import type { NewCall } from "./new-call.ts";
import {
  type Committed,
  type Input,
  kindOf,
  makesWork,
  OPERATIONS,
  type Outcome,
  type ReadName,
  type StoreMethods,
  type WriteName,
} from "./operations.ts";
import { ResultRoom } from "./result-room.ts";
import type { BatchListener, Contract, Store } from "./store.ts";

/** Options of every store. */
export interface StoreOptions {
  /** Limit of unfinished JobCalls, over all replicas. New work is refused beyond it. */
  readonly maxPending: number;
  /** Approximate size of all results, in bytes, at which no further payment begins. */
  readonly maxResultsBytes?: number | undefined;
  readonly encodeJobCall: JobCallEncoder;
  /** Replaces the store's own clock in tests. */
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
  /** Called for each batch of writes. */
  readonly onBatch?: BatchListener | undefined;
  /**
   * Called for each change once it is durable, before the operation's caller gets its outcome. Must be quick; an error that
   * it throws is only logged, because the change stands.
   */
  readonly onCommitted?: ((committed: Committed) => void) | undefined;
  readonly tracing?: Tracing | undefined;
}

/** Wait for a server that is not reachable yet. */
export interface StoreWait {
  /** Default: the configured timeout. */
  readonly connectTimeoutMs?: number | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/** Parts of a store that differ between dialects. */
export interface Dialect extends Pick<Store, "isShared" | "sharedLeases" | "status" | "close"> {
  /** Resolves once the operation is durable. */
  write<Name extends WriteName>(name: Name, input: Input<Name>): Promise<Outcome<Name>>;
  /** Runs on a separate connection, so that no lookup delays a write. */
  read<Name extends ReadName>(name: Name, input: Input<Name>): Promise<Outcome<Name>>;
  /** Listeners for new work. */
  readonly work: Listeners;
}

export function toNewCall(call: JobCall, encodeJobCall: JobCallEncoder): NewCall {
  const encoded = encodeJobCall(call);
  return {
    origin: call.origin,
    jobId: String(call.jobId),
    serviceId: String(call.serviceId),
    encoded,
    headBytes: Math.max(0, encoded.byteLength - call.body.byteLength),
    order: call.order && { orderKey: orderKeyOf(call.order), holdsOnDead: call.order.holdsOnDead },
  };
}

/** Metadata key that carries the trace to the runner and to a later delivery. */
const TRACEPARENT = "traceparent";

/** Builds the Store's methods from the table of operations and a dialect's channels. */
export function createStore(dialect: Dialect, options: StoreOptions): Store {
  const { isShared, sharedLeases, work } = dialect;
  const { encodeJobCall, onCommitted, tracing, logger, maxResultsBytes } = options;
  const room =
    maxResultsBytes === undefined
      ? undefined
      : new ResultRoom({ maxBytes: maxResultsBytes, sum: () => dialect.read("resultBytes", []), logger });

  function encode(call: JobCall): NewCall {
    const traceparent = tracing?.traceparent();
    if (traceparent === undefined) return toNewCall(call, encodeJobCall);
    const requestMetadata = [...(call.requestMetadata ?? []), [TRACEPARENT, traceparent] as const];
    return toNewCall({ ...call, requestMetadata }, encodeJobCall);
  }

  /** Announces new work while it waits for its commit, so that a claim can share the commit. */
  function push<Name extends WriteName>(name: Name, input: Input<Name>): Promise<Outcome<Name>> {
    const pushed = dialect.write(name, input);
    if (makesWork(name, input)) work.notify();
    return pushed;
  }

  /** Calls the listener of durable changes. */
  function tell(committed: Committed): void {
    try {
      onCommitted?.(committed);
    } catch (error) {
      const operation = committed.operation === "step" ? committed.name : committed.operation;
      logger?.error({ err: error, operation }, "a listener failed on a change that was committed");
    }
  }

  // This is not an async function, because each accept would then create two more promises and wait for them.
  function write<Name extends WriteName>(
    name: Name,
    input: Input<Name>,
    asked: readonly unknown[] = input,
  ): Promise<Outcome<Name>> {
    const pushed = tracing === undefined ? push(name, input) : traced(name, tracing, () => push(name, input));
    if (onCommitted === undefined) return pushed;
    return pushed.then((outcome) => {
      tell({ operation: name, input: asked, outcome } as unknown as Committed);
      return outcome;
    });
  }

  /** Makes the methods of a module. */
  function methodsOf({ steps = {}, lookups = {} }: AnyModule): object {
    const reads = Object.keys(lookups).map((name) => [
      name,
      (...input: never) => dialect.read(name as ReadName, input),
    ]);
    const writes = Object.entries(steps).map(([name, step]) => [
      name,
      async (...input: never) => {
        const outcome: unknown = await push(name as WriteName, input);
        tell({ operation: "step", name, input, outcome, event: step?.event?.(outcome) });
        return outcome;
      },
    ]);
    return Object.fromEntries([...reads, ...writes]);
  }

  const own = Object.fromEntries(
    Object.keys(OPERATIONS).map((name) => [name, (...input: never) => write(name as WriteName, input)]),
  );
  const methods = Object.assign(own, ...CORE_MODULES.map(methodsOf)) as StoreMethods;

  /**
   * Returns true for a payment that gets an earlier outcome, because it has already bought its job at this or another
   * replica, or because its money has moved.
   */
  async function hasBegun(key: PaymentKey): Promise<boolean> {
    if ((await methods.findPayment(key)) !== undefined) return true;
    const adopted = await methods.findAdoptedPayments(key);
    return adopted.some((one) => one.key.network === key.network && one.key.asset === key.asset);
  }

  const ofModules = new Map<Contract<unknown>, object>();
  let closed: Promise<void> | undefined;
  return {
    ...methods,
    accept: (call) => write("accept", [encode(call)], [call]),
    acceptOnce: (call, delivery) => write("acceptOnce", [encode(call), delivery], [call, delivery]),
    async beginPayment(intent, call, ...limits) {
      const refusal = await room?.refusal();
      if (refusal !== undefined && !(await hasBegun(intent.key))) throw refusal;
      return write("beginPayment", [intent, encode(call), ...limits], [intent, call, ...limits]);
    },
    ack(lease, result, charge) {
      room?.add(result?.storedBytes ?? result?.body.byteLength ?? 0);
      return methods.ack(lease, result, charge);
    },
    of<Methods>(module: Contract<Methods>): Methods {
      const known = ofModules.get(module) ?? methodsOf(module as AnyModule);
      ofModules.set(module, known);
      return known as Methods;
    },
    onWork: (listener) => work.add(listener),
    isShared,
    sharedLeases,
    status: () => dialect.status(),
    close() {
      room?.stop();
      closed ??= dialect.close();
      return closed;
    },
  };
}

/** Puts a span around the commit of an operation that has a span. */
function traced<T>(name: WriteName, tracing: Tracing, commit: () => Promise<T>): Promise<T> {
  const operation = kindOf(name)?.span;
  if (operation === undefined) return commit();
  const attributes = { "jobgate.operation": operation };
  return tracing.runChild({ name: "store.commit", kind: "internal", attributes }, async (span) => {
    const outcome = await commit();
    const { kind, callId } = outcome as { readonly kind: string; readonly callId?: number };
    span?.set({ "jobgate.outcome": kind, ...(callId === undefined ? {} : { "jobgate.call_id": callId }) });
    return outcome;
  });
}

/** Subscribers to an event. `News` is the value that they are called with. */
export class Listeners<News = void> {
  readonly #listeners = new Set<{ readonly listener: (news: News) => void }>();

  /** @returns a function that ends the subscription */
  add(listener: (news: News) => void): () => void {
    // The listener is wrapped, so that one function can be subscribed twice.
    const entry = { listener };
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  notify(news: News): void {
    for (const { listener } of this.#listeners) listener(news);
  }
}
