import { DEFAULT_TIMEOUTS } from "../../../../src/parts/postgres/connection/connect.ts";
import type { Connections } from "../../../../src/parts/postgres/connection/connection-pool.ts";
import { isReadOnly } from "../../../../src/parts/postgres/connection/database-errors.ts";
import type { MemoryPostgres, Sent, Session } from "./server.ts";
import type { Row } from "./tables.ts";

/** The way of messages between a client and the server, which keeps their order. */
export interface Wire {
  /** @throws Error when the server cannot be reached */
  connect(): Promise<void>;
  toServer(statement: string, arrive: () => void): void;
  toClient(arrive: () => void): void;
}

/** A client's connection: as much of the driver's as the store uses. */
class Client {
  /** As if something else of this turn was being sent. */
  readonly connection = { stream: { writableCorked: 1 } };
  readonly #session: Session;
  readonly #wire: Wire;
  readonly #waiting = new Set<(error: Error) => void>();
  #lost: Error | undefined;

  constructor(session: Session, wire: Wire) {
    this.#session = session;
    this.#wire = wire;
  }

  on(): void {}
  off(): void {}

  query(sent: Sent): Promise<{ rows: readonly Row[] }> {
    return new Promise((resolve, reject) => {
      if (this.#lost !== undefined) return reject(this.#lost);
      const timer = setTimeout(() => this.lose(new Error("Query read timeout")), DEFAULT_TIMEOUTS.answerMs);
      const end = (settle: () => void) => () => {
        clearTimeout(timer);
        if (this.#waiting.delete(fail)) settle();
      };
      const fail = (error: Error) => end(() => reject(error))();
      this.#waiting.add(fail);
      this.#wire.toServer(sent.name, () => {
        this.#session.run(sent).then(
          (rows) => this.#wire.toClient(end(() => resolve({ rows }))),
          (error: Error) =>
            this.#wire.toClient(() =>
              this.#session.isEnded ? this.lose(error) : end(() => reject(error))(),
            ),
        );
      });
    });
  }

  /** The connection breaks: no answer arrives any more, and the server notices when it has read what was sent. */
  lose(error: Error): void {
    this.#lost = error;
    for (const fail of [...this.#waiting]) fail(error);
    this.close();
  }

  close(): void {
    this.#lost ??= new Error("Client was closed and is not queryable");
    this.#wire.toServer("terminate", () => this.#session.end());
  }
}

export type { Client as MemoryClient };

/** Connections that are kept open, as `ConnectionPool` keeps them. */
class Pool {
  readonly #open: () => Promise<Client>;
  readonly #max: number;
  readonly #onReadOnly: () => void;
  #idle: Client[] = [];
  #count = 0;
  readonly #queue: (() => void)[] = [];
  #fit = new WeakSet<Client>();

  constructor(open: () => Promise<Client>, max: number, onReadOnly: () => void) {
    this.#open = open;
    this.#max = max;
    this.#onReadOnly = onReadOnly;
  }

  async use<T>(work: (client: Client, discard: () => void) => Promise<T>): Promise<T> {
    while (this.isBusy()) await new Promise<void>((resolve) => this.#queue.push(resolve));
    let client = this.#idle.pop();
    if (client === undefined) {
      this.#count += 1;
      try {
        client = await this.#open();
      } catch (error) {
        this.#release();
        throw error;
      }
      this.#fit.add(client);
    }
    const used = client;
    const discard = () => void this.#fit.delete(used);
    try {
      return await work(used, discard);
    } catch (error) {
      discard();
      if (isReadOnly(error)) this.#onReadOnly();
      throw error;
    } finally {
      if (this.#fit.has(used)) this.#idle.push(used);
      else used.close();
      this.#release(this.#fit.has(used));
    }
  }

  isBusy(): boolean {
    return this.#idle.length === 0 && this.#count >= this.#max;
  }

  leaveServer(): void {
    this.#fit = new WeakSet();
    for (const client of this.#idle.splice(0)) {
      client.close();
      this.#release();
    }
  }

  async close(): Promise<void> {
    this.leaveServer();
  }

  #release(isKept = false): void {
    if (!isKept) this.#count -= 1;
    this.#queue.shift()?.();
  }
}

/** Connections for lookups of clients. */
const READERS = 6;

/** Opens the connections of a replica. @param wireOf makes the way of one connection, which can break it */
export function connectionsTo(
  server: MemoryPostgres,
  { writers, wireOf }: { writers: number; wireOf: (client: () => Client) => Wire },
): Connections {
  const open = async () => {
    const wire = wireOf(() => client);
    await wire.connect();
    const client: Client = new Client(server.connect(), wire);
    return client;
  };
  const leave = () => {
    for (const pool of pools) pool.leaveServer();
  };
  const pools = [writers, READERS, 1].map((max) => new Pool(open, max, leave));
  const [writerPool, readers, operatorReaders] = pools;
  const close = async () => {
    await Promise.all(pools.map((pool) => pool.close()));
  };
  return { writers: writerPool, readers, operatorReaders, close } as unknown as Connections;
}
