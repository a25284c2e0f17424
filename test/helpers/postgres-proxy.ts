import { connect, createServer, type Socket } from "node:net";

/** Treatment of a connection after a COMMIT. */
export type CommitFault =
  /** Postgres never sees the COMMIT; both ends are cut off. */
  | "cut before"
  /** Postgres has the COMMIT, and its answer is thrown away; both ends are cut off. */
  | "cut after"
  /** Postgres gets the COMMIT, and the client gets neither an answer nor a disconnect. */
  | "silent after";

/** A way to Postgres that can be cut, stalled, and led to another server. */
export interface PostgresProxy {
  /** The same database by this way. */
  urlOf(url: string): string;
  /** Sets the treatment of the next COMMIT, on any connection. Resolves after that COMMIT. */
  atNextCommit(fault: CommitFault): Promise<void>;
  /** Stops all traffic in both directions, on new connections too, until resumed. */
  setStalled(isStalled: boolean): void;
  /** Cuts off all connections. */
  cut(): void;
  /** Leads new connections to another port. */
  redirect(port: number): void;
  stop(): Promise<void>;
}

/** The text of a statement that only commits, as its Parse message and as its Bind message by name. */
const COMMIT_MARKS = [Buffer.from("\0COMMIT\0"), Buffer.from("\0commit\0")];

/** The command tag of an answer. */
const COMMITTED = Buffer.from("COMMIT\0");

export async function startPostgresProxy(target: number): Promise<PostgresProxy> {
  let port = target;
  let isStalled = false;
  let next: { fault: CommitFault; happened: () => void } | undefined;
  const pairs = new Set<{ client: Socket; server: Socket }>();

  function cut(): void {
    for (const { client, server } of pairs) {
      client.destroy();
      server.destroy();
    }
  }

  const listener = createServer((client) => {
    const server = connect(port, "127.0.0.1");
    const pair = { client, server };
    pairs.add(pair);
    let isSilent = false;
    let isDeaf = false;
    const hold = () => {
      client.pause();
      server.pause();
    };
    if (isStalled) hold();

    client.on("data", (chunk) => {
      if (isDeaf) return;
      const current = next;
      if (current === undefined || !COMMIT_MARKS.some((mark) => chunk.includes(mark))) {
        server.write(chunk);
        return;
      }
      next = undefined;
      isDeaf = true;
      isSilent = true;
      if (current.fault === "cut before") {
        client.destroy();
        server.destroy();
        current.happened();
        return;
      }
      server.write(chunk);
      server.on("data", (answer) => {
        if (!answer.includes(COMMITTED)) return;
        if (current.fault === "cut after") {
          client.destroy();
          server.destroy();
        }
        current.happened();
      });
    });
    server.on("data", (chunk) => {
      if (!isSilent) client.write(chunk);
    });
    for (const [end, other] of [
      [client, server],
      [server, client],
    ] as const) {
      end.on("error", () => undefined);
      end.on("close", () => {
        pairs.delete(pair);
        if (!isSilent) other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port: ownPort } = listener.address() as { port: number };

  return {
    urlOf(url) {
      const own = new URL(url);
      own.port = String(ownPort);
      return own.href;
    },
    atNextCommit: (fault) =>
      new Promise((resolve) => {
        next = { fault, happened: resolve };
      }),
    setStalled(stalled) {
      isStalled = stalled;
      for (const { client, server } of pairs) {
        for (const end of [client, server]) stalled ? end.pause() : end.resume();
      }
    },
    cut,
    redirect(toPort) {
      port = toPort;
    },
    async stop() {
      cut();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
