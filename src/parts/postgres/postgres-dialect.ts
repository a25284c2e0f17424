import { type Dialect, Listeners, type StoreOptions } from "../../store/create-store.ts";
import { GroupCommit, type OperationOutcome } from "../../store/group-commit.ts";
import type { Input, Operation, Outcome, ReadName, WriteName } from "../../store/operations.ts";
import { payloadBytes, runsLast } from "../../store/operations.ts";
import { StoreHealth } from "../../store/store-health.ts";
import type { RanBatch } from "./batch/run-batch.ts";
import { Committer, type CommitterOptions } from "./commit/commit-batch.ts";
import type { Connections } from "./connection/connection-pool.ts";
import { Heartbeat } from "./connection/heartbeat.ts";
import type { WorkChannel, WorkListeners } from "./connection/work-channel.ts";
import type { Lookups } from "./lookups.ts";
import { forgetResult, prune } from "./prune.ts";

/** Delay of the first probe after a failure. Nothing is written before the probe, and many failures end quickly. */
const FIRST_PROBE_MS = 100;
/**
 * Batches in progress at once, each on a connection of its own. While one batch is flushed to the disk, the next one
 * runs.
 */
export const BATCHES_IN_FLIGHT = 2;

/** A database server, as a replica has reached it. */
export interface PostgresServer extends Pick<CommitterOptions, "onRan" | "timeouts"> {
  readonly connections: Connections;
  openLookups(isWritable: () => boolean): Lookups;
  /** Returns undefined where replicas only poll. */
  openChannel(listeners: WorkListeners): Pick<WorkChannel, "announce" | "close"> | undefined;
  /** Called when a commit has not been answered for `hangMs`, because another server may accept the writes by now. */
  readonly onHang?: () => void;
}

/** The operations of a store on a Postgres that several processes share. */
export class PostgresDialect implements Dialect {
  readonly isShared = true;
  readonly work = new Listeners();
  readonly sharedLeases: Dialect["sharedLeases"];
  readonly #leasesEnded = new Listeners<readonly number[]>();
  readonly #server: PostgresServer;
  readonly #options: StoreOptions;
  readonly #health: StoreHealth;
  readonly #lookups: Lookups;
  readonly #heartbeat: Heartbeat;
  readonly #committer: Committer;
  readonly #commits: GroupCommit<Operation<WriteName>>;
  #channel: Pick<WorkChannel, "announce" | "close"> | undefined;
  #pending = 0;
  #isClosing = false;

  constructor(server: PostgresServer, options: StoreOptions) {
    const { connections, timeouts, onRan } = server;
    const { writers, readers } = connections;
    const { logger, clock, maxPending, onBatch } = options;
    this.#server = server;
    this.#options = options;
    this.#health = new StoreHealth({
      probe: () => this.write("probe", []),
      logger,
      firstProbeMs: FIRST_PROBE_MS,
    });
    const isWritable = () => this.#health.reason === undefined;
    this.#lookups = server.openLookups(isWritable);
    this.sharedLeases = {
      look: this.#lookups.lookAtLeases,
      onEndedElsewhere: (listener) => this.#leasesEnded.add(listener),
    };
    this.#heartbeat = new Heartbeat({
      ...{ writers, readers, logger, clock, maxPending, isWritable, hangMs: timeouts.hangMs },
      onFailure: (reason) => this.#failed(reason),
      onOutdated: (reason) => {
        this.#health.died(reason);
        this.#commits.refuseWaiting();
      },
      onHang: () => this.#hangs(),
      onPending: (counted) => {
        this.#pending = counted;
      },
    });
    this.#committer = new Committer({
      ...{ writers, timeouts, logger, clock, maxPending, onRan },
      isClosing: () => this.#isClosing,
      onCommitted: (batch, operations) => this.#committed(batch, operations),
    });
    this.#commits = new GroupCommit<Operation<WriteName>>({
      maxInFlight: BATCHES_IN_FLIGHT,
      callerMs: timeouts.callerMs,
      // A caller that stops waiting for a claim would get none of the JobCalls that the claim has leased.
      isPatient: ({ name }) => name === "probe" || name === "claim",
      refusal: ({ name }) => (name === "probe" ? undefined : this.#health.reason),
      onBatch,
      bytesOf: payloadBytes,
      runsLast,
      commit: (operations) => this.#commit(operations),
    });
  }

  /** @throws Error when the server does not answer, or can only be read from */
  async start(): Promise<void> {
    await this.#heartbeat.start();
    this.#channel = this.#server.openChannel({
      onWork: () => this.work.notify(),
      onEnded: (callIds) => this.#leasesEnded.notify(callIds),
    });
  }

  write<Name extends WriteName>(name: Name, input: Input<Name>): Promise<Outcome<Name>> {
    const operation = { name, input } as unknown as Operation<WriteName>;
    return (this.#apartFromBatches(operation) ?? this.#commits.push(operation)) as Promise<Outcome<Name>>;
  }

  read<Name extends ReadName>(name: Name, input: Input<Name>): Promise<Outcome<Name>> {
    const lookup = this.#lookups[name] as (...input: readonly unknown[]) => Promise<Outcome<Name>>;
    return lookup(...input);
  }

  status() {
    return this.#health.status(this.#pending, this.#options.maxPending);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#health.stop();
    await Promise.all([this.#commits.close(), this.#heartbeat.stop(), this.#channel?.close()]);
    await this.#server.connections.close();
  }

  /** Runs the operations that no batch takes. Shrinking does nothing, because Postgres gives space back by itself. */
  #apartFromBatches({ name, input }: Operation<WriteName>): Promise<unknown> | undefined {
    const { clock } = this.#options;
    const { operatorReaders } = this.#server.connections;
    if (name === "prune") return prune(operatorReaders, input[0], clock?.() ?? null);
    if (name === "forgetResult") return forgetResult(operatorReaders, input[0]);
    return name === "shrink" ? Promise.resolve(false) : undefined;
  }

  async #commit(operations: readonly Operation<WriteName>[]): Promise<OperationOutcome[]> {
    const { hangMs } = this.#server.timeouts;
    const timer = setTimeout(() => this.#hangs(), hangMs);
    try {
      return await this.#committer.commit(operations);
    } catch (error) {
      this.#failed(error instanceof Error ? error.message : String(error));
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #committed(batch: RanBatch, operations: readonly Operation<WriteName>[]): void {
    const { leavesWork, outcomes } = batch;
    this.#pending = batch.pending;
    // The work was also announced before the write, but claims that followed that announcement may have been in another
    // batch.
    if (leavesWork) this.work.notify();
    const endedCallIds = endedLeasesOfOthers(operations, outcomes);
    if (leavesWork || endedCallIds.length > 0) this.#channel?.announce({ hasWork: leavesWork, endedCallIds });
  }

  #hangs(): void {
    const { timeouts, onHang } = this.#server;
    this.#failed(`Postgres has not answered a commit for ${timeouts.hangMs / 1000} s`);
    onHang?.();
  }

  #failed(reason: string): void {
    this.#health.failed(reason);
    this.#commits.refuseWaiting();
  }
}

/** Selects the JobCalls for which a batch has ended a lease that another process had granted. */
function endedLeasesOfOthers(
  operations: readonly Operation<WriteName>[],
  outcomes: readonly unknown[],
): number[] {
  return operations.flatMap(({ name, input }, index) => {
    if (name !== "ack" && name !== "retry" && name !== "fail") return [];
    const [{ callId, fromElsewhere = false }] = input;
    const ended = outcomes[index] as Outcome<typeof name>;
    const outcome = typeof ended === "string" ? ended : ended.outcome;
    return fromElsewhere && outcome === "done" ? [callId] : [];
  });
}
