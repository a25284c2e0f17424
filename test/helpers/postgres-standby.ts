import { expect } from "vitest";
import { eventually } from "./eventually.ts";
import { type Postgres, startPostgres } from "./postgres.ts";
import { startPostgresProxy } from "./postgres-proxy.ts";

/** The standby without which a Postgres server answers no COMMIT. */
export interface SynchronousStandby {
  /** Stops the standby's receiver of changes with SIGSTOP while something is done. */
  freeze<T>(deed: () => Promise<T>): Promise<T>;
  readonly port: number;
  /** Makes it a primary. Resolves once it takes writes. */
  promote(): Promise<void>;
  stop(): Promise<void>;
}

/** Restarts the primary, and gives it a standby. */
export async function startSynchronousStandby(primary: Postgres, url: string): Promise<SynchronousStandby> {
  const standby = await startPostgres({ standbyOf: primary });
  const own = new URL(url);
  own.port = String(standby.port);

  const expectState = (syncState: "async" | "sync") =>
    eventually(async () => {
      const states = await primary.query(url, "SELECT state, sync_state FROM pg_stat_replication");
      expect(states).toEqual([{ state: "streaming", sync_state: syncState }]);
    });
  await expectState("async");
  await primary.query(url, "ALTER SYSTEM SET synchronous_standby_names = '*'");
  await primary.query(url, "SELECT pg_reload_conf()");
  await expectState("sync");

  return {
    async freeze(deed) {
      const [receiver] = await standby.query<{ pid: number }>(
        own.href,
        "SELECT pid FROM pg_stat_wal_receiver",
      );
      if (receiver === undefined) throw new Error("the standby receives nothing");
      process.kill(receiver.pid, "SIGSTOP");
      return deed().finally(() => process.kill(receiver.pid, "SIGCONT"));
    },
    port: standby.port,
    async promote() {
      await standby.query(own.href, "SELECT pg_promote()");
    },
    stop: () => standby.stop(),
  };
}

/** A primary that jobgate reaches through a proxy, and its synchronous standby. */
export interface PostgresPair {
  /** URL of a database, with both servers. */
  readonly url: string;
  readonly standby: SynchronousStandby;
  /** Ends the primary with SIGKILL, and its connections. */
  killPrimary(): Promise<void>;
  /** Keeps the primary's connections open without passing anything on. */
  silencePrimary(): void;
  stop(): Promise<void>;
}

export async function startPostgresPair(): Promise<PostgresPair> {
  const primary = await startPostgres();
  const url = await primary.createDatabase();
  const standby = await startSynchronousStandby(primary, url);
  const proxy = await startPostgresProxy(primary.port);
  const { port } = new URL(proxy.urlOf(url));
  const both = url.replace(/@[^/]*/, `@127.0.0.1:${port},127.0.0.1:${standby.port}`);
  return {
    url: `${both}?target_session_attrs=read-write`,
    standby,
    async killPrimary() {
      await primary.kill("SIGKILL");
      proxy.cut();
    },
    silencePrimary: () => proxy.setStalled(true),
    async stop() {
      await proxy.stop();
      await standby.stop();
      await primary.stop();
    },
  };
}
