import { type Clock, ClockSteps, monotonicClock, systemClock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { createStore, Listeners, type StoreOptions } from "../create-store.ts";
import { GroupCommit, type OperationOutcome } from "../group-commit.ts";
import { isForOperator } from "../modules/modules.ts";
import { type Input, type OperationName, type Outcome, payloadBytes, runsLast } from "../operations.ts";
import type { BatchListener, Store } from "../store.ts";
import { StoreHealth } from "../store-health.ts";
import type { ConnectionRole } from "./connection.ts";
import { newSeenCommit } from "./database-header.ts";
import { FileOwner } from "./file-owner.ts";
import type { Counts } from "./serve-database.ts";
import type { TimedOperation } from "./transaction.ts";
import { type DeathListener, WorkerLink } from "./worker-link.ts";

export interface SqliteStoreOptions extends StoreOptions {
  /**
   * Path of the database file, which is created if it is missing. Its folder must exist. SQLite keeps `-wal` and `-shm`
   * files beside it.
   */
  readonly path: string;
  /** If false, SQLite runs in this thread, where commits block but the store opens ten times faster. Default: true. */
  readonly threads?: boolean;
  /** Monotonic clock. Default: this process's clock, or none if a test sets `clock`. */
  readonly monotonic?: Clock;
}

/** Time between two counts while the store is full. */
const RECOUNT_EVERY_MS = 1_000;

/**
 * Opens the embedded store: one SQLite file, for one gateway process. One worker thread writes, so that a commit never
 * blocks the event loop; another thread runs lookups.
 * @throws StoreInUseError when another store has the file open
 * @throws Error when the file cannot be opened for durable writes
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { path, maxPending, clock = systemClock, logger, onBatch, threads = true } = options;
  const owner = FileOwner.take(path);
  let isLost = false;
  const work = new Listeners();
  const health: StoreHealth = new StoreHealth({
    probe: () => Promise.all([writer.run("probe", []), reader.run("nextDueMs", [])]),
    logger,
  });
  const monotonic = options.monotonic ?? (options.clock === undefined ? monotonicClock : undefined);
  const writer = new DatabaseChannel({
    threads,
    clock,
    steps: monotonic && new ClockSteps(clock, monotonic),
    onBatch,
    beforeBatch: (lastCallId) => owner.reserve(lastCallId),
    onWork: () => work.notify(),
    onFailure: (reason) => health.failed(reason),
    onDeath(reason, log) {
      isLost = true;
      health.died(reason);
      if (log !== undefined) owner.recordTruncatedLog(log);
    },
  });
  const reader = new DatabaseChannel({
    threads,
    clock,
    steps: undefined,
    onBatch: undefined,
    onFailure: (reason) => health.lookupFailed(reason),
    onDeath: (reason) => health.died(reason),
  });
  let recountedAt = Number.NEGATIVE_INFINITY;
  /**
   * Capacity can become free by time alone, but only a batch recounts it, and a full store gets no batches. The probe forces
   * a recount.
   */
  const recount = () => {
    if (performance.now() - recountedAt < RECOUNT_EVERY_MS) return;
    recountedAt = performance.now();
    // The store's health reports the failure.
    writer.run("probe", []).catch(() => undefined);
  };
  const operatorReader = new OperatorReader({
    threads,
    clock,
    path,
    onFailure: (reason) => health.lookupFailed(reason),
  });
  const close = async () => {
    const closeAll = () => Promise.all([writer.close(), reader.close(), operatorReader.close()]);
    await (isLost ? owner.closeAsItIs(closeAll) : closeAll());
    health.stop();
    owner.release(isLost ? undefined : writer.lastCallId);
  };
  try {
    if (owner.isReplaced) await (await import("./inspect.ts")).requireFittingLog(path);
    // The writer creates the tables.
    const isNew = !owner.wasMade;
    const { files: watch, lastCallId } = owner;
    const seenCommit = newSeenCommit();
    await writer.open({
      role: "writer",
      path,
      watch,
      seenCommit,
      isNew,
      lastCallId,
      maxPending,
      now: clock(),
    });
    owner.recordDatabase();
    await reader.open({ role: "reader", path, checkpoints: { files: watch, seenCommit } });
  } catch (error) {
    await close();
    throw error;
  }
  return createStore(
    {
      write: (name, input) =>
        takesWork(name) && !health.takesWork
          ? Promise.reject(
              new GatewayError("store_unavailable", "The store cannot be read; nothing was changed."),
            )
          : writer.run(name, input),
      read: (name, input) => (isForOperator(name) ? operatorReader : reader).run(name, input),
      work,
      // One file belongs to one process.
      isShared: false,
      status() {
        const status = health.status(writer.pending, maxPending);
        if (status.full) recount();
        return status;
      },
      close,
    },
    options,
  );
}

type OperatorReaderOptions = { readonly path: string } & Pick<
  ConstructorParameters<typeof DatabaseChannel>[0],
  "threads" | "clock" | "onFailure"
>;

/** The operator's connection. The first lookup opens it, and the next lookup reopens it after its thread died. */
class OperatorReader {
  readonly #options: OperatorReaderOptions;
  #channel: Promise<DatabaseChannel> | undefined;
  #isClosed = false;

  constructor(options: OperatorReaderOptions) {
    this.#options = options;
  }

  async run<Name extends OperationName>(name: Name, input: Input<Name>): Promise<Outcome<Name>> {
    this.#channel ??= this.#open();
    return (await this.#channel).run(name, input);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#channel?.catch(() => undefined))?.close();
  }

  async #open(): Promise<DatabaseChannel> {
    if (this.#isClosed) throw new GatewayError("store_unavailable", "The store is closed.");
    const { path, ...options } = this.#options;
    const channel = new DatabaseChannel({
      ...options,
      steps: undefined,
      onBatch: undefined,
      onDeath: (reason) => {
        options.onFailure(reason);
        this.#channel = undefined;
      },
    });
    try {
      await channel.open({ role: "reader", path, checkpoints: undefined });
      return channel;
    } catch (cause) {
      this.#channel = undefined;
      await channel.close();
      throw new GatewayError("store_unavailable", "The store lookup failed.", { cause });
    }
  }
}

/** Returns true for operations that accept new work. */
function takesWork(name: OperationName): boolean {
  return name === "accept" || name === "acceptOnce" || name === "beginPayment";
}

/** Runs operations on one database worker, many in one transaction. */
class DatabaseChannel {
  readonly #worker: WorkerLink;
  readonly #commits: GroupCommit<TimedOperation>;
  readonly #clock: Clock;
  readonly #steps: ClockSteps | undefined;
  readonly #beforeBatch: ((lastCallId: number) => void) | undefined;
  readonly #onWork: (() => void) | undefined;
  readonly #onFailure: (reason: string) => void;
  #counts: Counts | undefined;

  constructor(options: {
    readonly threads: boolean;
    readonly clock: Clock;
    /** Steps of the wall clock, which move leases and delays. */
    readonly steps: ClockSteps | undefined;
    readonly onBatch: BatchListener | undefined;
    /** Called with the highest call ID that the next batch can give out. If it throws, the batch does not run. */
    readonly beforeBatch?: (lastCallId: number) => void;
    /** Called when JobCalls became ready that no operation of the batch announces. */
    readonly onWork?: () => void;
    /** Called when a batch could not be committed. */
    readonly onFailure: (reason: string) => void;
    /** Called when the worker is gone and no later batch can be committed. */
    readonly onDeath: DeathListener;
  }) {
    this.#clock = options.clock;
    this.#steps = options.steps;
    this.#beforeBatch = options.beforeBatch;
    this.#onWork = options.onWork;
    this.#onFailure = options.onFailure;
    this.#worker = new WorkerLink(options);
    this.#commits = new GroupCommit<TimedOperation>({
      commit: (batch) => this.#commit(batch),
      maxInFlight: 1,
      bytesOf: payloadBytes,
      runsLast,
      onBatch: options.onBatch,
    });
  }

  /** @throws Error when the database cannot be opened */
  async open(role: ConnectionRole): Promise<void> {
    this.#counts = await this.#worker.open(role);
  }

  /** Resolves once the operation is committed. The operation's effective time is the time of this call. */
  run<Name extends OperationName>(name: Name, input: Input<Name>): Promise<Outcome<Name>> {
    const clockStepMs = this.#steps?.take() ?? 0;
    const operation = { name, input, now: this.#clock(), clockStepMs } as unknown as TimedOperation;
    return this.#commits.push(operation) as Promise<Outcome<Name>>;
  }

  /** Number of unfinished JobCalls, as of the last batch. */
  get pending(): number {
    return this.#counts?.pending ?? 0;
  }

  /** Highest call ID that was given out; undefined before the channel is open. */
  get lastCallId(): number | undefined {
    return this.#counts?.lastCallId;
  }

  async close(): Promise<void> {
    await this.#commits.close();
    await this.#worker.close();
  }

  async #commit(batch: readonly TimedOperation[]): Promise<readonly OperationOutcome[]> {
    try {
      const newCalls = batch.filter(({ name }) => takesWork(name)).length;
      this.#beforeBatch?.((this.lastCallId ?? 0) + newCalls);
      const { outcomes, ...counts } = await this.#worker.run(batch);
      this.#counts = counts;
      if (counts.leavesWork) this.#onWork?.();
      return outcomes;
    } catch (error) {
      this.#onFailure(error instanceof Error ? error.message : String(error));
      throw error;
    }
  }
}
