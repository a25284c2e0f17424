import { migrate } from "../migrate.ts";
import { type ConnectionPool, type ConnectionPoolOptions, createConnectionPool } from "./connection-pool.ts";

/** Of the two sorts, so that no lookup holds up a write. */
export interface Connections {
  readonly writers: ConnectionPool;
  readonly readers: ConnectionPool;
  close(): Promise<void>;
}

/** One listens for work. */
const LISTENERS = 1;

export interface ConnectionsOptions extends ConnectionPoolOptions {
  /** Connections that one replica may have open, its listening one included. */
  readonly poolSize: number;
  readonly writers: number;
  /** The server can only be read from, and is left: the next connections are opened anew, by the same URL. */
  readonly onServerLeft: () => void;
}

/**
 * Opens the first connection, and brings the tables up to date.
 * @throws Error when the database cannot be reached, written to, or brought up to date
 */
export async function openConnections(options: ConnectionsOptions): Promise<Connections> {
  const { writers: writerCount, poolSize, logger, onServerLeft } = options;
  const onReadOnly = () => {
    logger?.warn("this Postgres server can only be read from any more: connecting anew");
    for (const pool of [writers, readers]) pool.leaveServer();
    onServerLeft();
  };
  const writers = createConnectionPool({ ...options, max: writerCount, onReadOnly });
  const readers = createConnectionPool({
    ...options,
    max: Math.max(1, poolSize - writerCount - LISTENERS),
    onReadOnly,
  });
  const close = async () => {
    await Promise.all([writers.close(), readers.close()]);
  };
  try {
    await writers.use(migrate);
    return { writers, readers, close };
  } catch (error) {
    await close();
    throw error;
  }
}
