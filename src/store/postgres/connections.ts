import pg, { type ClientBase, type Pool, type PoolClient } from "pg";
import type { Logger } from "pino";
import { BoundedClient } from "./bounded-client.ts";
import { clientConfig, type PostgresAddress, type PostgresTimeouts, prepareSession } from "./connect.ts";
import { migrate } from "./migrate.ts";

/** Of the two sorts, so that no lookup holds up a write. */
export interface Connections {
  readonly writers: Pool;
  readonly readers: Pool;
  close(): Promise<void>;
}

/** One listens for work. */
const LISTENERS = 1;

export interface ConnectionsOptions {
  readonly address: PostgresAddress;
  readonly timeouts: PostgresTimeouts;
  /** Connections that one replica may have open, its listening one included. */
  readonly poolSize: number;
  readonly writers: number;
  readonly logger: Logger | undefined;
}

/**
 * Opens the first connection, and brings the tables up to date.
 * @throws Error when the database cannot be reached, written to, or brought up to date
 */
export async function openConnections(options: ConnectionsOptions): Promise<Connections> {
  const { writers: writerCount, poolSize } = options;
  const writers = createPool(options, writerCount);
  const readers = createPool(options, Math.max(1, poolSize - writerCount - LISTENERS));
  const close = async () => {
    await Promise.all([writers.end(), readers.end()]);
  };
  try {
    await withClient(writers, migrate);
    return { writers, readers, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function createPool({ address, timeouts, logger }: ConnectionsOptions, max: number): Pool {
  const pool = new pg.Pool({
    ...clientConfig(address, timeouts),
    max,
    Client: BoundedClient,
    // A queue is idle at one moment and busy at the next: connections are kept.
    idleTimeoutMillis: 0,
    // The pool waits for what it gives, which its types do not say.
    onConnect: ((client) => prepareSession(client, timeouts)) as (client: ClientBase) => void,
  });
  // Of a connection that was not in use; the pool has let go of it and opens another when it needs one.
  pool.on("error", (error) => logger?.warn({ reason: error.message }, "a connection to Postgres broke"));
  return pool;
}

/** Uses a connection of the pool; one on which something failed, or that is discarded, is not used again. */
export async function withClient<T>(
  pool: Pool,
  use: (client: PoolClient, discard: () => void) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  // It also rejects what was asked on it; without a listener it would end the process.
  const ignore = () => undefined;
  client.on("error", ignore);
  let isUnfit = false;
  const discard = () => {
    isUnfit = true;
  };
  try {
    return await use(client, discard);
  } catch (error) {
    discard();
    throw error;
  } finally {
    client.off("error", ignore);
    client.release(isUnfit);
  }
}
