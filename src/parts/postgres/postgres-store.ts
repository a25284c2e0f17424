import { setTimeout as sleep } from "node:timers/promises";
import { createStore, type StoreOptions } from "../../store/create-store.ts";
import type { Store } from "../../store/store.ts";
import { DEFAULT_TIMEOUTS, type PostgresAddress, type PostgresTimeouts } from "./connection/connect.ts";
import { openConnections } from "./connection/connection-pool.ts";
import { WorkChannel } from "./connection/work-channel.ts";
import { createLookups } from "./lookups.ts";
import { BATCHES_IN_FLIGHT, PostgresDialect, type PostgresServer } from "./postgres-dialect.ts";
import { LIST_DIALECT } from "./sql.ts";

export interface PostgresStoreOptions extends StoreOptions, PostgresAddress {
  /** Limit of open connections; at least 4. */
  readonly poolSize?: number;
  /** False polls for other replicas' work and keeps no session, as a pooler in transaction mode needs. Default true. */
  readonly listen?: boolean | undefined;
  /** Wait for a server that is not reachable yet. Default 60 s. */
  readonly connectTimeoutMs?: number | undefined;
  /** Ends that wait. */
  readonly signal?: AbortSignal | undefined;
  readonly timeouts?: PostgresTimeouts;
}

const DEFAULT_POOL_SIZE = 10;
const DEFAULT_CONNECT_TIMEOUT_MS = 60_000;
/** Interval at which the store is checked for writability with a new URL. */
const LOOK_MS = 100;

/**
 * Opens the store that several gateway processes share: a Postgres database, with its tables in the schema `jobgate`.
 * @throws Error when the database cannot be reached, written to, or brought up to date, or does not promise durability
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { url, passwordFile, tls, ca, clock, logger, signal, listen = true } = options;
  const { connectTimeoutMs = DEFAULT_CONNECT_TIMEOUT_MS } = options;
  const { poolSize = DEFAULT_POOL_SIZE, timeouts = DEFAULT_TIMEOUTS } = options;
  const { callerMs } = timeouts;
  const address: PostgresAddress & { url: string } = { url, passwordFile, tls, ca };
  let channel: WorkChannel | undefined;
  const connections = await openConnections({
    ...{ address, timeouts, connectTimeoutMs, signal, poolSize, logger },
    keepsSession: listen,
    writers: BATCHES_IN_FLIGHT,
    onServerLeft: () => channel?.reconnect(),
  });
  const server: PostgresServer = {
    connections,
    timeouts,
    onRan: undefined,
    onHang() {
      const { servers } = connections;
      // If no other server accepts writes, this one may still answer.
      if (servers.areSeveral) servers.search().catch(() => undefined);
    },
    openLookups: (isWritable) =>
      createLookups({ ...connections, dialect: LIST_DIALECT, clock, callerMs, isWritable }),
    openChannel(listeners) {
      if (!listen) return undefined;
      channel = new WorkChannel({ servers: connections.servers, timeouts, logger, ...listeners });
      return channel;
    },
  };
  const dialect = new PostgresDialect(server, options);
  try {
    await dialect.start();
  } catch (error) {
    await connections.close();
    throw error;
  }
  async function useUrl(next: string): Promise<void> {
    if (next === address.url) return;
    address.url = next;
    const deadline = performance.now() + callerMs;
    while (!dialect.status().writable && performance.now() < deadline)
      await sleep(LOOK_MS, undefined, { ref: false });
  }
  return { ...createStore(dialect, options), useUrl };
}
