import type { Logger } from "pino";
import type { Clock } from "../../core/clock.ts";
import type { JobCallEncoder } from "../../core/job-call.ts";
import { createGroupCommit } from "../group-commit.ts";
import { createListeners } from "../listeners.ts";
import { toNewCall } from "../new-call.ts";
import { payloadBytes } from "../payload-bytes.ts";
import type { BatchListener, Store } from "../store.ts";
import { createWriteHealth } from "../write-health.ts";
import type { Operation, OperationName, Operations } from "./batch/operations.ts";
import { createCommitBatch } from "./commit/commit-batch.ts";
import { endedLeasesOfOthers } from "./commit/ended-leases.ts";
import { DEFAULT_TIMEOUTS, type PostgresAddress, type PostgresTimeouts } from "./connection/connect.ts";
import { openConnections } from "./connection/connections.ts";
import { startHeartbeat } from "./connection/heartbeat.ts";
import { openWorkChannel } from "./connection/work-channel.ts";
import { createLookups } from "./lookups.ts";

export interface PostgresStoreOptions extends PostgresAddress {
  /** Connections that it may have open; at least 4. Default 10. */
  readonly poolSize?: number;
  /** JobCalls not yet finished, over all replicas, above which new work is refused. */
  readonly maxPending: number;
  readonly encodeJobCall: JobCallEncoder;
  /** In place of the database's clock, by which all replicas go: for tests. */
  readonly clock?: Clock;
  readonly timeouts?: PostgresTimeouts;
  readonly logger?: Logger;
  /** Is told of every write. */
  readonly onBatch?: BatchListener;
}

const DEFAULT_POOL_SIZE = 10;
/** Batches under way at once, each on a connection of its own: while one is flushed to the disk, the next one runs. */
const BATCHES_IN_FLIGHT = 2;

/**
 * The store that several gateway processes share: a Postgres database, in whose schema `jobgate` its tables are.
 * @throws Error when the database cannot be reached, written to, or brought up to date, or does not promise durability
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { url, tls, ca, maxPending, encodeJobCall, clock, logger, onBatch } = options;
  const { poolSize = DEFAULT_POOL_SIZE, timeouts = DEFAULT_TIMEOUTS } = options;
  const address = { url, ...(tls === undefined ? {} : { tls }), ...(ca === undefined ? {} : { ca }) };
  let reconnectChannel = () => {};
  const { writers, readers, ...connections } = await openConnections({
    address,
    timeouts,
    poolSize,
    writers: BATCHES_IN_FLIGHT,
    logger,
    onServerLeft: () => reconnectChannel(),
  });

  const work = createListeners();
  const health = createWriteHealth({ probe: () => push("probe", undefined), logger });
  const { lookAtLeases, ...lookups } = createLookups({ readers, clock });
  const endedListeners = createListeners<readonly number[]>();
  let pending = 0;
  const stopHeartbeat = await startHeartbeat({
    writers,
    readers,
    logger,
    onFailure: health.failed,
    onPending: (counted) => {
      pending = counted;
    },
  }).catch(async (error: unknown) => {
    await connections.close();
    throw error;
  });
  const channel = openWorkChannel({
    address,
    timeouts,
    logger,
    onWork: work.notify,
    onEnded: endedListeners.notify,
  });
  reconnectChannel = channel.reconnect;

  const commitBatch = createCommitBatch({
    writers,
    timeouts,
    logger,
    maxPending,
    clock,
    onCommitted(batch, operations) {
      pending = batch.pending;
      // Told before it was written, too; those who asked then may have been in another batch.
      if (batch.leavesWork) work.notify();
      const endedCallIds = endedLeasesOfOthers(operations, batch.outcomes);
      if (batch.leavesWork || endedCallIds.length > 0)
        channel.announce({ hasWork: batch.leavesWork, endedCallIds });
    },
  });
  const pump = createGroupCommit<Operation>({
    maxInFlight: BATCHES_IN_FLIGHT,
    ...(onBatch === undefined ? {} : { onBatch }),
    bytesOf: ({ input }) => payloadBytes(input),
    async commit(operations) {
      try {
        return await commitBatch(operations);
      } catch (error) {
        health.failed(error instanceof Error ? error.message : String(error));
        throw error;
      }
    },
  });

  async function push<Name extends OperationName>(
    name: Name,
    input: Operations[Name]["input"],
  ): Promise<Operations[Name]["outcome"]> {
    return (await pump.push({ name, input } as Operation)) as Operations[Name]["outcome"];
  }

  /** Tells of the work that `pushed` makes, while it still waits to be written: a claim may share its batch. */
  function withNewWork<T>(pushed: Promise<T>): Promise<T> {
    work.notify();
    return pushed;
  }

  async function closeAll(): Promise<void> {
    health.stop();
    await Promise.all([pump.close(), stopHeartbeat(), channel.close()]);
    await connections.close();
  }
  let closed: Promise<void> | undefined;

  return {
    ...lookups,

    status: () => ({
      writable: health.reason === undefined,
      full: pending >= maxPending,
      ...(health.reason === undefined ? {} : { reason: health.reason }),
    }),
    close: () => {
      closed ??= closeAll();
      return closed;
    },

    accept: (call) => withNewWork(push("accept", { call: toNewCall(call, encodeJobCall) })),
    acceptOnce: (call, delivery) =>
      withNewWork(push("acceptOnce", { call: toNewCall(call, encodeJobCall), delivery })),

    isShared: true,
    beginPayment: (intent, call) => push("beginPayment", { intent, call: toNewCall(call, encodeJobCall) }),
    settlePayment: (key, settlement) => withNewWork(push("settlePayment", { key, settlement })),
    failPayment: (key, settlement, reason) => push("failPayment", { key, settlement, reason }),
    leavePaymentUnresolved: (key, reason) => push("leavePaymentUnresolved", { key, reason }),

    claim: (request) => push("claim", request),
    ack: (lease, result) => push("ack", { lease, result }),
    retry: (lease, retry) => {
      const pushed = push("retry", { lease, retry });
      return retry.delayMs === 0 ? withNewWork(pushed) : pushed;
    },
    fail: (lease, reason) => push("fail", { lease, reason }),
    extend: (lease, leaseMs, progress) => push("extend", { lease, leaseMs, progress }),
    release: (lease, options) => withNewWork(push("release", { lease, ...options })),
    onWork: (listener) => work.add(listener),
    sharedLeases: { look: lookAtLeases, onEndedElsewhere: (listener) => endedListeners.add(listener) },

    retryDeadLetter: (callId) => withNewWork(push("retryDeadLetter", { callId })),
    dropDeadLetter: (callId) => push("dropDeadLetter", { callId }),

    saveOffers: (offers) => push("saveOffers", { offers }),
    saveQuote: (quote) => push("saveQuote", { quote }),
  };
}
