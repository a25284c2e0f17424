import { setTimeout as sleep } from "node:timers/promises";
import { createStore, Listeners, type StoreOptions } from "../../store/create-store.ts";
import { GroupCommit, type OperationOutcome } from "../../store/group-commit.ts";
import type { Input, Operation, Outcome, ReadName, WriteName } from "../../store/operations.ts";
import { payloadBytes, runsLast } from "../../store/operations.ts";
import type { Store } from "../../store/store.ts";
import { StoreHealth } from "../../store/store-health.ts";
import { Committer } from "./commit/commit-batch.ts";
import { DEFAULT_TIMEOUTS, type PostgresAddress, type PostgresTimeouts } from "./connection/connect.ts";
import { openConnections } from "./connection/connection-pool.ts";
import { Heartbeat, hanging } from "./connection/heartbeat.ts";
import { WorkChannel } from "./connection/work-channel.ts";
import { createLookups } from "./lookups.ts";
import { prune } from "./retention.ts";

export interface PostgresStoreOptions extends StoreOptions, PostgresAddress {
  /** Limit of open connections; at least 4. */
  readonly poolSize?: number;
  /** Wait for a server that is not reachable yet. Default 60 s. */
  readonly connectTimeoutMs?: number | undefined;
  /** Ends that wait. */
  readonly signal?: AbortSignal | undefined;
  readonly timeouts?: PostgresTimeouts;
}

const DEFAULT_POOL_SIZE = 10;
const DEFAULT_CONNECT_TIMEOUT_MS = 60_000;
/** Wait for the first probe after a failure: nothing is written before it, and many failures pass at once. */
const FIRST_PROBE_MS = 100;
/** Batches under way at once, each on a connection of its own: while one is flushed to the disk, the next one runs. */
const BATCHES_IN_FLIGHT = 2;

/**
 * Opens the store that several gateway processes share: a Postgres database, with its tables in the schema `jobgate`.
 * @throws Error when the database cannot be reached, written to, or brought up to date, or does not promise durability
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { url, tls, ca, maxPending, clock, logger, onBatch, signal } = options;
  const { connectTimeoutMs = DEFAULT_CONNECT_TIMEOUT_MS } = options;
  const { poolSize = DEFAULT_POOL_SIZE, timeouts = DEFAULT_TIMEOUTS } = options;
  const address: { url: string } & PostgresAddress = {
    url,
    ...(tls === undefined ? {} : { tls }),
    ...(ca === undefined ? {} : { ca }),
  };
  let reconnectChannel = () => {};
  const { writers, readers, operatorReaders, ...connections } = await openConnections({
    address,
    timeouts,
    connectTimeoutMs,
    signal,
    poolSize,
    writers: BATCHES_IN_FLIGHT,
    logger,
    onServerLeft: () => reconnectChannel(),
  });

  const work = new Listeners();
  const leasesEnded = new Listeners<readonly number[]>();
  const health: StoreHealth = new StoreHealth({
    probe: () => write("probe", []),
    logger,
    firstProbeMs: FIRST_PROBE_MS,
  });
  const onFailure = (reason: string) => {
    health.failed(reason);
    commits.refuseWaiting();
  };
  const { callerMs, hangMs } = timeouts;
  const { lookAtLeases, ...lookups } = createLookups({
    readers,
    operatorReaders,
    clock,
    callerMs,
    isWritable: () => health.reason === undefined,
  });
  let pending = 0;
  let isClosing = false;
  const heartbeat = new Heartbeat({
    writers,
    readers,
    logger,
    maxPending,
    clock,
    hangMs,
    onFailure,
    isWritable: () => health.reason === undefined,
    onPending: (counted) => {
      pending = counted;
    },
  });
  try {
    await heartbeat.start();
  } catch (error) {
    await connections.close();
    throw error;
  }
  const channel = new WorkChannel({
    address,
    timeouts,
    logger,
    onWork: () => work.notify(),
    onEnded: (callIds) => leasesEnded.notify(callIds),
  });
  reconnectChannel = () => channel.reconnect();

  const committer = new Committer({
    writers,
    timeouts,
    logger,
    maxPending,
    clock,
    isClosing: () => isClosing,
    onCommitted(batch, operations) {
      pending = batch.pending;
      // Announced before the write, too; those who claimed then may have been in another batch.
      if (batch.leavesWork) work.notify();
      const endedCallIds = endedLeasesOfOthers(operations, batch.outcomes);
      if (batch.leavesWork || endedCallIds.length > 0)
        channel.announce({ hasWork: batch.leavesWork, endedCallIds });
    },
  });
  const commits: GroupCommit<Operation<WriteName>> = new GroupCommit<Operation<WriteName>>({
    maxInFlight: BATCHES_IN_FLIGHT,
    callerMs,
    // A claim that is given up would lease its JobCalls to nobody.
    isPatient: ({ name }) => name === "probe" || name === "claim",
    refusal: ({ name }) => (name === "probe" ? undefined : health.reason),
    onBatch,
    bytesOf: payloadBytes,
    runsLast,
    async commit(operations): Promise<OperationOutcome[]> {
      const timer = setTimeout(() => onFailure(hanging(hangMs)), hangMs);
      try {
        return await committer.commit(operations);
      } catch (error) {
        onFailure(error instanceof Error ? error.message : String(error));
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
  });

  function write<Name extends WriteName>(name: Name, input: Input<Name>): Promise<Outcome<Name>> {
    const apart = apartFromBatches({ name, input } as unknown as Operation<WriteName>);
    if (apart !== undefined) return apart as Promise<Outcome<Name>>;
    return commits.push({ name, input } as unknown as Operation<WriteName>) as Promise<Outcome<Name>>;
  }

  /** Runs the operations that no batch takes. Postgres gives space back by itself. */
  function apartFromBatches({ name, input }: Operation<WriteName>): Promise<unknown> | undefined {
    if (name === "prune") return prune(operatorReaders, input[0], clock?.() ?? null);
    return name === "shrink" ? Promise.resolve(false) : undefined;
  }

  function read<Name extends ReadName>(name: Name, input: Input<Name>): Promise<Outcome<Name>> {
    const lookup = lookups[name] as (...input: readonly unknown[]) => Promise<Outcome<Name>>;
    return lookup(...input);
  }

  async function close(): Promise<void> {
    isClosing = true;
    health.stop();
    await Promise.all([commits.close(), heartbeat.stop(), channel.close()]);
    await connections.close();
  }

  return createStore(
    {
      write,
      read,
      work,
      isShared: true,
      sharedLeases: { look: lookAtLeases, onEndedElsewhere: (listener) => leasesEnded.add(listener) },
      status: () => health.status(pending, maxPending),
      async useUrl(next) {
        if (next === address.url) return;
        address.url = next;
        const deadline = performance.now() + callerMs;
        while (health.reason !== undefined && performance.now() < deadline)
          await sleep(FIRST_PROBE_MS, undefined, { ref: false });
      },
      close,
    },
    options,
  );
}

/** Selects the JobCalls of which a batch has ended a lease that another process had given out. */
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
