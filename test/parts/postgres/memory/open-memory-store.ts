import { DEFAULT_TIMEOUTS } from "../../../../src/parts/postgres/connection/connect.ts";
import { createLookups } from "../../../../src/parts/postgres/lookups.ts";
import {
  BATCHES_IN_FLIGHT,
  PostgresDialect,
  type PostgresServer,
} from "../../../../src/parts/postgres/postgres-dialect.ts";
import { createStore, type StoreOptions } from "../../../../src/store/create-store.ts";
import { DIALECT } from "../../../../src/store/sqlite/operations/modules.ts";
import type { Store } from "../../../../src/store/store.ts";
import { connectionsTo, type MemoryClient, type Wire } from "./connections.ts";
import type { MemoryPostgres } from "./server.ts";

/** Server in memory as one replica reaches it. */
export interface Replica extends Pick<PostgresServer, "onRan" | "openChannel"> {
  readonly server: MemoryPostgres;
  wireOf(client: () => MemoryClient): Wire;
}

/** Returns a replica whose messages arrive at once. */
export function nearbyReplica(server: MemoryPostgres): Replica {
  return {
    server,
    onRan: undefined,
    openChannel: () => ({ announce: () => undefined, close: () => Promise.resolve() }),
    wireOf: () => ({
      connect: () => Promise.resolve(),
      toServer: (_statement, arrive) => arrive(),
      toClient: (arrive) => arrive(),
    }),
  };
}

/** Opens the Postgres store on a server in memory, which answers lookups that are written for SQLite. */
export async function openMemoryStore(replica: Replica, options: StoreOptions): Promise<Store> {
  const { server, wireOf, onRan, openChannel } = replica;
  const connections = connectionsTo(server, { writers: BATCHES_IN_FLIGHT, wireOf });
  const timeouts = DEFAULT_TIMEOUTS;
  const { callerMs } = timeouts;
  const clock = () => options.clock?.() ?? Date.now();
  const openLookups = (isWritable: () => boolean) =>
    createLookups({ ...connections, dialect: DIALECT, clock, callerMs, isWritable });
  const dialect = new PostgresDialect({ connections, timeouts, openLookups, openChannel, onRan }, options);
  await dialect.start();
  return createStore(dialect, options);
}
