import pg, { type ClientBase, type PoolClient } from "pg";
import type { Logger } from "pino";
import { BoundedClient } from "./bounded-client.ts";
import { clientConfig, type PostgresAddress, type PostgresTimeouts, prepareSession } from "./connect.ts";
import { isReadOnly } from "./database-errors.ts";

/** Connections that are kept open, each used by one at a time. */
export interface ConnectionPool {
  /** Uses a connection; one on which something failed, or that is discarded, is not used again. */
  use<T>(work: (client: ClientBase, discard: () => void) => Promise<T>): Promise<T>;
  /** Whether whoever comes next has to wait for a connection. */
  isBusy(): boolean;
  /** No connection that is open now is used again. */
  leaveServer(): void;
  close(): Promise<void>;
}

export interface ConnectionPoolOptions {
  readonly address: PostgresAddress;
  readonly timeouts: PostgresTimeouts;
  readonly logger: Logger | undefined;
}

export function createConnectionPool(
  options: ConnectionPoolOptions & {
    readonly max: number;
    /** Something was refused because this server can only be read from. */
    readonly onReadOnly: () => void;
  },
): ConnectionPool {
  const { address, timeouts, logger, max, onReadOnly } = options;
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

  /** To the server that is to be used. */
  let fit = new WeakSet<PoolClient>();
  pool.on("connect", (client) => fit.add(client));

  /** Ends as soon as one is new: there are at most as many others as the pool holds. */
  async function takeFit(): Promise<PoolClient> {
    for (;;) {
      const client = await pool.connect();
      if (fit.has(client)) return client;
      client.release(true);
    }
  }

  return {
    async use(work) {
      const client = await takeFit();
      // It also rejects what was asked on it; without a listener it would end the process.
      const ignore = () => undefined;
      client.on("error", ignore);
      const discard = () => void fit.delete(client);
      try {
        return await work(client, discard);
      } catch (error) {
        discard();
        if (isReadOnly(error)) onReadOnly();
        throw error;
      } finally {
        client.off("error", ignore);
        client.release(!fit.has(client));
      }
    },
    isBusy: () => pool.idleCount === 0 && pool.totalCount >= max,
    leaveServer() {
      fit = new WeakSet();
    },
    close: () => pool.end(),
  };
}
