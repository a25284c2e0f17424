import { setTimeout as sleep } from "node:timers/promises";
import pg, { type ClientBase, type PoolClient } from "pg";
import type { Logger } from "pino";
import { migrate } from "../migrate.ts";
import { BoundedClient, operatorTimeouts, type PostgresAddress, type PostgresTimeouts } from "./connect.ts";
import { isNotReady, isReadOnly } from "./database-errors.ts";
import { Servers } from "./servers.ts";
import { beginWithSettings, LIST_SETTINGS, prepareSession } from "./session.ts";

interface PoolOptions {
  readonly servers: Servers;
  readonly timeouts: PostgresTimeouts;
  readonly logger: Logger | undefined;
  /** False behind a pooler that gives each transaction another connection. */
  readonly keepsSession: boolean;
}

/** Connections that are kept open, each with one user at a time. */
export class ConnectionPool {
  readonly #pool: pg.Pool;
  readonly #servers: Servers;
  /** Connections that are open or being opened. */
  readonly #open = new Set<BoundedClient>();
  readonly #max: number;
  readonly #onReadOnly: () => void;
  /** Connections to the server that is to be used. */
  #fit = new WeakSet<PoolClient>();

  constructor(
    options: PoolOptions & {
      readonly max: number;
      readonly settings?: typeof LIST_SETTINGS;
      /** Called when the server refused a write because it can only be read from. */
      readonly onReadOnly: () => void;
    },
  ) {
    const { servers, timeouts, logger, max, settings, keepsSession, onReadOnly } = options;
    const begin = keepsSession ? undefined : beginWithSettings(timeouts, settings);
    const open = this.#open;
    this.#servers = servers;
    this.#max = max;
    this.#onReadOnly = onReadOnly;
    this.#pool = new pg.Pool({
      max,
      // Each client reads the address anew, because a reload may have changed its password.
      Client: class extends BoundedClient {
        constructor() {
          super(servers.address, timeouts, begin);
          open.add(this);
          this.once("end", () => open.delete(this));
        }
      },
      // Keeps connections, because a queue is idle at one moment and busy at the next.
      idleTimeoutMillis: 0,
      // The pool waits for the promise, although its types do not say so.
      onConnect: ((client) => prepareSession(client, timeouts, { settings, keepsSession })) as (
        client: ClientBase,
      ) => void,
    });
    // The error concerns a connection that was not in use. The pool has dropped it, and opens another connection when
    // it needs one.
    this.#pool.on("error", (error) =>
      logger?.warn({ reason: error.message }, "a connection to Postgres broke"),
    );
    this.#pool.on("connect", (client) => this.#fit.add(client));
  }

  /** Uses a connection. A connection that failed or was discarded is not used again. */
  async use<T>(work: (client: ClientBase, discard: () => void) => Promise<T>): Promise<T> {
    const client = await this.#takeFitAnywhere();
    // A lost connection also rejects the queries on it; without a listener the event would end the process.
    const ignore = () => undefined;
    client.on("error", ignore);
    const discard = () => void this.#fit.delete(client);
    try {
      return await work(client, discard);
    } catch (error) {
      discard();
      if (isReadOnly(error)) this.#onReadOnly();
      throw error;
    } finally {
      client.off("error", ignore);
      client.release(!this.#fit.has(client));
    }
  }

  /** Checks whether the next caller has to wait for a connection. */
  isBusy(): boolean {
    return this.#pool.idleCount === 0 && this.#pool.totalCount >= this.#max;
  }

  /** Stops using all connections that are open now. */
  leaveServer(): void {
    this.#fit = new WeakSet();
  }

  /** Ends all connections, in use or not, because their server is no longer used. */
  dropAll(): void {
    this.leaveServer();
    for (const client of this.#open) client.abort();
  }

  close(): Promise<void> {
    return this.#pool.end();
  }

  /** Takes a connection to the server that accepts writes. Searches for that server if connections cannot be opened. */
  async #takeFitAnywhere(): Promise<PoolClient> {
    if (!this.#servers.areSeveral) return this.#takeFit();
    if (this.#servers.isLost) await this.#servers.search();
    return this.#takeFit().catch(async () => {
      await this.#servers.search();
      return this.#takeFit();
    });
  }

  /** The loop ends at the first new connection, because the pool has a limited number of old connections. */
  async #takeFit(): Promise<PoolClient> {
    for (;;) {
      const client = await this.#pool.connect();
      if (this.#fit.has(client)) return client;
      client.release(true);
    }
  }
}

/** One connection of each replica listens for work. */
const LISTENERS = 1;

/** One connection is reserved for the operator if there are enough. */
const OPERATORS = 1;
const MIN_POOL_SIZE_WITH_OPERATOR = 5;
const RETRY_MS = 500;

/** Separate pools, so that no lookup delays a write. */
export interface Connections {
  readonly writers: ConnectionPool;
  readonly readers: ConnectionPool;
  /** One connection for the operator's lookups, which may be slow, so that clients do not wait for it. */
  readonly operatorReaders: ConnectionPool;
  readonly servers: Servers;
  close(): Promise<void>;
}

/**
 * Opens the first connection, and brings the tables up to date.
 * @throws Error when the database cannot be reached, written to, or brought up to date
 */
export async function openConnections(
  options: Omit<PoolOptions, "servers"> & {
    readonly address: PostgresAddress;
    /** Limit of connections of one replica, including its listening connection. */
    readonly poolSize: number;
    readonly writers: number;
    /** Wait for a server that is not reachable yet. */
    readonly connectTimeoutMs: number;
    readonly signal: AbortSignal | undefined;
    /** Called when the server can only be read from, or another server is in use. */
    readonly onServerLeft: () => void;
  },
): Promise<Connections> {
  const { writers: writerCount, poolSize, logger, keepsSession, onServerLeft } = options;
  const onReadOnly = () => {
    logger?.warn("this Postgres server has become read-only: connecting again");
    for (const pool of pools) pool.leaveServer();
    onServerLeft();
  };
  const onMoved = () => {
    for (const pool of pools) pool.dropAll();
    onServerLeft();
  };
  const servers = new Servers({ ...options, onMoved });
  const shared = { ...options, servers, onReadOnly };
  const writers: ConnectionPool = new ConnectionPool({ ...shared, max: writerCount });
  const operators = poolSize < MIN_POOL_SIZE_WITH_OPERATOR ? 0 : OPERATORS;
  const readers: ConnectionPool = new ConnectionPool({
    ...shared,
    max: Math.max(1, poolSize - writerCount - (keepsSession ? LISTENERS : 0) - operators),
  });
  const operatorReaders =
    operators === 0
      ? readers
      : new ConnectionPool({
          ...shared,
          timeouts: operatorTimeouts(options.timeouts),
          max: operators,
          settings: LIST_SETTINGS,
        });
  const pools = new Set([writers, readers, operatorReaders]);
  const close = async () => {
    await Promise.all([...pools].map((pool) => pool.close()));
  };
  try {
    await whenReady(() => writers.use(migrate), options);
    return { writers, readers, operatorReaders, servers, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Tries until the server is ready, because services and containers start in any order. Other errors fail at once. */
async function whenReady(
  connect: () => Promise<void>,
  options: Pick<Parameters<typeof openConnections>[0], "connectTimeoutMs" | "signal" | "logger">,
): Promise<void> {
  const { connectTimeoutMs, signal, logger } = options;
  const startedAt = performance.now();
  for (let tries = 1; ; tries += 1) {
    try {
      await connect();
      const waitedMs = Math.round(performance.now() - startedAt);
      if (tries > 1) logger?.info({ waitedMs }, "connected to Postgres");
      return;
    } catch (error) {
      const leftMs = startedAt + connectTimeoutMs - performance.now();
      if (!isNotReady(error) || leftMs <= 0) throw error;
      const reason = error instanceof Error ? error.message || String((error as { code?: string }).code) : "";
      if (tries === 1) logger?.warn({ reason, connectTimeoutMs }, "waiting for Postgres");
      await sleep(Math.min(RETRY_MS, leftMs), undefined, signal === undefined ? {} : { signal });
    }
  }
}
