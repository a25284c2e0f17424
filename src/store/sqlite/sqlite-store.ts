import type { Logger } from "pino";
import { type Clock, systemClock } from "../../core/clock.ts";
import type { JobCallEncoder } from "../../core/job-call.ts";
import { createListeners } from "../listeners.ts";
import { toNewCall } from "../new-call.ts";
import type { BatchListener, Store } from "../store.ts";
import { createWriteHealth } from "../write-health.ts";
import { openDatabaseChannel } from "./database-channel.ts";
import type { ReadOperations, WriteOperations } from "./operations/index.ts";

export interface SqliteStoreOptions {
  /** The database file; made if it is missing. Its folder must exist. `-wal` and `-shm` files lie beside it. */
  readonly path: string;
  /** JobCalls not yet finished above which new work is refused. */
  readonly maxPending: number;
  readonly encodeJobCall: JobCallEncoder;
  readonly clock?: Clock;
  readonly logger?: Logger;
  /** Is told of every write. */
  readonly onBatch?: BatchListener;
  /** Default true. False runs SQLite in this thread: commits block, but the store opens ten times faster. */
  readonly threads?: boolean;
}

/**
 * The embedded store: one SQLite file, for one gateway process. One worker thread writes, so that a commit
 * never blocks the event loop; another looks things up.
 * @throws Error when the file cannot be opened for durable writes
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { path, maxPending, encodeJobCall, clock = systemClock, logger, onBatch, threads = true } = options;
  const health = createWriteHealth({ probe: () => writer.call("probe", undefined), logger });
  const openingWriter = openDatabaseChannel<WriteOperations>({
    role: { role: "writer", path, maxPending },
    threads,
    clock,
    ...(onBatch === undefined ? {} : { onBatch }),
    onFailure: health.failed,
    onDeath: health.died,
  });
  const logLookupFailure = (reason: string) => logger?.error({ reason }, "the store cannot look things up");
  const openingReader = openDatabaseChannel<ReadOperations>({
    role: { role: "reader", path },
    threads,
    // The writer makes the tables.
    after: openingWriter,
    clock,
    onFailure: logLookupFailure,
    onDeath: logLookupFailure,
  });
  const [writer, reader] = await Promise.all([openingWriter, openingReader]).catch(async (error: unknown) => {
    await Promise.allSettled([openingReader, openingWriter.then((opened) => opened.close())]);
    throw error;
  });

  const work = createListeners();
  /** Tells of the work that `pushed` makes, while it still waits to be committed. */
  function withNewWork<T>(pushed: Promise<T>): Promise<T> {
    work.notify();
    return pushed;
  }

  async function closeAll(): Promise<void> {
    await Promise.all([writer.close(), reader.close()]);
    health.stop();
  }
  let closed: Promise<void> | undefined;

  return {
    status: () => ({
      writable: health.reason === undefined,
      full: writer.pending >= maxPending,
      ...(health.reason === undefined ? {} : { reason: health.reason }),
    }),
    totals: () => reader.call("totals", undefined),
    revenue: (period) => reader.call("revenue", period),
    close: () => {
      closed ??= closeAll();
      return closed;
    },

    accept: (call) => withNewWork(writer.call("accept", { call: toNewCall(call, encodeJobCall) })),
    acceptOnce: (call, delivery) =>
      withNewWork(writer.call("acceptOnce", { call: toNewCall(call, encodeJobCall), delivery })),

    // One file belongs to one process.
    isShared: false,
    findPayment: (key) => reader.call("findPayment", { key }),
    findPaymentByFingerprint: (fingerprint) => reader.call("findPaymentByFingerprint", { fingerprint }),
    isCallerNonceUsed: (nonce) => reader.call("isCallerNonceUsed", { nonce }),
    beginPayment: (intent, call) =>
      writer.call("beginPayment", { intent, call: toNewCall(call, encodeJobCall) }),
    settlePayment: (key, settlement) => withNewWork(writer.call("settlePayment", { key, settlement })),
    failPayment: (key, settlement, reason) => writer.call("failPayment", { key, settlement, reason }),
    leavePaymentUnresolved: (key, reason) => writer.call("leavePaymentUnresolved", { key, reason }),
    listPayments: (filter) => reader.call("listPayments", filter),
    listUndecided: (filter) => reader.call("listUndecided", filter),

    claim: (request) => writer.call("claim", request),
    ack: (lease, result) => writer.call("ack", { lease, result }),
    retry: (lease, retry) => {
      const pushed = writer.call("retry", { lease, retry });
      return retry.delayMs === 0 ? withNewWork(pushed) : pushed;
    },
    fail: (lease, reason) => writer.call("fail", { lease, reason }),
    extend: (lease, leaseMs, progress) => writer.call("extend", { lease, leaseMs, progress }),
    release: (lease, options) => withNewWork(writer.call("release", { lease, ...options })),
    onWork: (listener) => work.add(listener),
    nextDue: () => writer.call("nextDue", undefined),

    listDeadLetters: (filter) => reader.call("listDeadLetters", filter),
    findDeadLetter: (callId) => reader.call("findDeadLetter", { callId }),
    retryDeadLetter: (callId) => withNewWork(writer.call("retryDeadLetter", { callId })),
    dropDeadLetter: (callId) => writer.call("dropDeadLetter", { callId }),

    findCall: (callId) => reader.call("findCall", { callId }),
    findResult: (callId) => reader.call("findResult", { callId }),

    saveOffers: async (offers) => {
      await writer.call("saveOffers", { offers });
    },
    findOffers: (job) => reader.call("findOffers", { job }),

    saveQuote: (quote) => writer.call("saveQuote", { quote }),
    findQuote: (digest) => reader.call("findQuote", { digest }),
  };
}
