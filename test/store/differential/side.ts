import { GatewayError } from "../../../src/core/errors.ts";
import type { EndingAuthorization } from "../../../src/store/contract/payment-journal.ts";
import type { Lease } from "../../../src/store/contract/work-queue.ts";
import type { StoreOptions } from "../../../src/store/create-store.ts";
import type { Committed } from "../../../src/store/operations.ts";
import type { Store } from "../../../src/store/store.ts";
import { operationsOf } from "./makers.ts";
import { Normal } from "./normal.ts";
import { isRef, type Place, type Ref, type Step } from "./steps.ts";
import { CALLBACK_KEPT_MS, contentOf, type Row, TABLES } from "./tables.ts";

/** An empty store that is compared with others. */
export interface OpenedStore {
  readonly store: Store;
  /** Reads all rows of a table. */
  rows(table: string): Promise<readonly Row[]>;
  /** Checks that what the store holds fits together. @returns one sentence for each problem */
  check(): Promise<readonly string[]>;
  dispose(): Promise<void>;
}

/** Way to open a store that is compared with others. */
export interface Compared {
  readonly name: string;
  /** False asks for the operations of a step one after the other. */
  readonly atOnce: boolean;
  open(options: Pick<StoreOptions, "maxPending" | "clock" | "onCommitted">): Promise<OpenedStore>;
}

interface Callback {
  readonly id: number;
  readonly at: number;
  readonly event: string;
  readonly url: string;
  readonly isBuyers: boolean;
  readonly attempts: number;
  readonly endedAt?: number;
}

/** No JobCall and no callback has it. */
const NO_ID = 8_000_000_000_000_000;
/** Lists whose order is not promised, or goes by an id that each store counts up. */
const UNORDERED: ReadonlySet<string> = new Set([
  ...[
    "listDueCallbacks",
    "listCallbacks",
    "listPaymentAlerts",
    "findTransactions",
    "findAdoptedPayments",
    "listEndingAuthorizations",
  ],
  ...["expireLeases"],
]);

/** One of the stores of a run. It knows the ids and leases behind the references of steps. */
export class Side {
  readonly name: string;
  readonly #opened: OpenedStore;
  readonly #atOnce: boolean;
  readonly #clock: { readonly latest: number };
  readonly #callIds = new Map<Place, number>();
  readonly #places = new Map<number, Place>();
  readonly #leases = new Map<string, Lease>();
  readonly #normal = new Normal(this.#places);
  readonly #committed: Committed[];

  private constructor(
    { name, atOnce }: Compared,
    opened: OpenedStore,
    committed: Committed[],
    clock: { readonly latest: number },
  ) {
    this.name = name;
    this.#atOnce = atOnce;
    this.#opened = opened;
    this.#committed = committed;
    this.#clock = clock;
  }

  /** @param clock `latest` is the latest time that it has shown */
  static async open(
    compared: Compared,
    maxPending: number,
    clock: { readonly now: number; readonly latest: number },
  ): Promise<Side> {
    const committed: Committed[] = [];
    const onCommitted = (change: Committed) => void committed.push(change);
    const opened = await compared.open({ maxPending, clock: () => clock.now, onCommitted });
    return new Side(compared, opened, committed, clock);
  }

  /** Runs a step. @returns what each operation came to, and the changes that the store told, both without ids */
  async run({ name, asked }: Step): Promise<{ outcomes: unknown[]; committed: unknown[] }> {
    if (name === "tick") return { outcomes: [], committed: [] };
    const resolved = await Promise.all(asked.map(({ input }) => this.#resolve(input)));
    const store = operationsOf(this.#opened.store);
    const ask = (input: readonly unknown[]) =>
      (store[name]?.(...input) ?? Promise.reject(new Error(`there is no ${name}`))).catch(rejection);
    this.#committed.length = 0;
    const outcomes: unknown[] = [];
    if (this.#atOnce) outcomes.push(...(await Promise.all(resolved.map((input) => ask(input as unknown[])))));
    else for (const input of resolved) outcomes.push(await ask(input as unknown[]));
    for (const [index, { place }] of asked.entries()) this.#learn(name, place, outcomes[index]);
    const committed = this.#committed.map((change) => {
      const committed = change.operation === "step" ? change.name : change.operation;
      return [committed, this.#normalOutcome(committed, change.outcome)];
    });
    return { outcomes: outcomes.map((outcome) => this.#normalOutcome(name, outcome)), committed };
  }

  /** Returns what each table says, without ids. */
  async content(): Promise<ReadonlyMap<string, readonly string[]>> {
    const tables = new Map<string, readonly string[]>();
    for (const table of TABLES)
      tables.set(table, contentOf(table, await this.#opened.rows(table), this.#normal, this.#clock.latest));
    return tables;
  }

  check(): Promise<readonly string[]> {
    return this.#opened.check();
  }

  dispose(): Promise<void> {
    return this.#opened.dispose();
  }

  #learn(name: string, place: Place, outcome: unknown): void {
    const { kind, callId, calls } = (outcome ?? {}) as {
      readonly kind?: string;
      readonly callId?: number;
      readonly calls?: readonly Lease[];
    };
    if (callId !== undefined && (kind === "accepted" || kind === "begun")) {
      this.#callIds.set(place, callId);
      this.#places.set(callId, place);
    }
    if (name === "claim")
      for (const { callId: id, leaseToken } of calls ?? [])
        this.#leases.set(`${place} ${this.#places.get(id)}`, { callId: id, leaseToken });
  }

  /** Puts the store's own ids and leases in the place of references. */
  async #resolve(value: unknown): Promise<unknown> {
    if (isRef(value)) return this.#find(value);
    if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
    if (Array.isArray(value)) return Promise.all(value.map((item) => this.#resolve(item)));
    const entries = Object.entries(value).map(async ([key, inner]) => [key, await this.#resolve(inner)]);
    return Object.fromEntries(await Promise.all(entries));
  }

  async #find(ref: Ref): Promise<unknown> {
    const callId = this.#callIds.get(ref.call) ?? NO_ID;
    if (ref.ref === "call") return callId;
    if (ref.ref === "lease")
      return this.#leases.get(`${ref.claim} ${ref.call}`) ?? { callId, leaseToken: "of nobody" };
    const listed = await operationsOf(this.#opened.store).listCallbacks?.({ callId, limit: 1_000 });
    const known = (listed ?? []) as Callback[];
    const callback = sortedCallbacks(known.filter((one) => this.#isKept(one)))[ref.index];
    return ref.ref === "callback" ? (callback?.id ?? NO_ID) : (callback?.attempts ?? 0);
  }

  /** A store may forget callbacks that ended long ago at any time. */
  #isKept({ endedAt }: Callback): boolean {
    return endedAt === undefined || endedAt > this.#clock.latest - CALLBACK_KEPT_MS;
  }

  #normalOutcome(name: string, outcome: unknown): unknown {
    // SQLite alone has space to give back.
    if (name === "shrink") return undefined;
    if (name === "listEndingAuthorizations")
      return (outcome as EndingAuthorization[]).map(({ callId }) => this.#normal.call(callId)).sort();
    if (name === "listCallbacks")
      return this.#sorted((outcome as Callback[]).filter((one) => this.#isKept(one)));
    if (UNORDERED.has(name) && Array.isArray(outcome)) return this.#sorted(outcome);
    const normal = this.#normal.of(outcome, name) as Record<string, unknown>;
    if (name === "claim")
      return { ...normal, calls: sorted(normal.calls), deadLettered: sorted(normal.deadLettered) };
    // Those that were queued in one batch have no order.
    // The JobCalls of one batch have no order.
    if (name === "listUncounted")
      return (normal as unknown as readonly Record<string, unknown>[]).map(({ callIds, ...of }) => ({
        ...of,
        callIds: sorted(callIds),
      }));
    if (name === "listOpenTransactions") return { ...normal, transactions: sorted(normal.transactions) };
    // Callbacks that ended are forgotten at different times.
    if (name === "totals") {
      const { callbacks, ...sums } = normal.sums as { callbacks?: { states: { pending: number } } };
      return { ...normal, sums: { ...sums, callbacks: callbacks?.states.pending } };
    }
    return normal;
  }

  #sorted(list: readonly unknown[]): unknown {
    return sorted(list.map((item) => this.#normal.of(item)));
  }
}

function sorted(list: unknown): unknown {
  return Array.isArray(list)
    ? list.toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1))
    : list;
}

function sortedCallbacks(callbacks: readonly Callback[]): Callback[] {
  const keyOf = ({ at, event, url, isBuyers }: Callback) => `${at} ${event} ${url} ${isBuyers}`;
  return callbacks.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
}

function rejection(error: unknown): unknown {
  if (error instanceof GatewayError) return { rejected: error.code };
  throw error;
}
