import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { DEFAULT_TIMEOUTS } from "../../../../src/parts/postgres/connection/connect.ts";
import { inspectPostgres } from "../../../../src/parts/postgres/inspect.ts";
import { startPostgres } from "../../../helpers/postgres.ts";
import { startPostgresProxy } from "../../../helpers/postgres-proxy.ts";
import { startSynchronousStandby } from "../../../helpers/postgres-standby.ts";
import { startBeforeAll } from "../../../helpers/start-before-all.ts";
import { acceptId } from "../../../store/store-fixtures.ts";
import { openReplica } from "../open-in-database.ts";

/** Limit for finding a server beside one that is silent. */
const FOUND_MS = 5_000;
/** Limit for leaving a server that is silent: far less than the wait for its answers. */
const LEFT_MS = 60_000;

const pair = startBeforeAll(async () => {
  const primary = await startPostgres();
  const url = await primary.createDatabase();
  const standby = await startSynchronousStandby(primary, url);
  return {
    primary,
    url,
    standby,
    async stop() {
      await standby.stop();
      await primary.stop();
    },
  };
});

/** The URL of the database on servers of 127.0.0.1 with these ports. */
const urlOf = (...ports: number[]) =>
  pair.url.replace(/@[^/]*/, `@${ports.map((port) => `127.0.0.1:${port}`).join()}`);

test("The server that takes writes is used, wherever the URL lists it, by the store and by jobgate store", async () => {
  const { primary, standby } = pair;
  for (const ports of [
    [primary.port, standby.port],
    [standby.port, primary.port],
  ]) {
    const store = await openReplica(urlOf(...ports));
    expect(await acceptId(store)).toBeGreaterThan(0);
    await store.close();
    const inspection = await inspectPostgres({ url: urlOf(...ports) });
    expect((await inspection.info()).place).toBe(`127.0.0.1:${primary.port}${new URL(pair.url).pathname}`);
    await inspection.close();
  }
});

test("A listed server that is silent does not keep the store from the server that takes writes", async () => {
  const proxy = await startPostgresProxy(pair.standby.port);
  onTestFinished(() => proxy.stop());
  proxy.setStalled(true);
  const silent = Number(new URL(proxy.urlOf(pair.url)).port);
  const startedAt = performance.now();
  const store = await openReplica(urlOf(silent, pair.primary.port));
  expect(performance.now() - startedAt).toBeLessThan(FOUND_MS);
  await acceptId(store);
  await store.close();
});

test("Where no listed server takes writes, the error has the reason of each; a wrong database fails at once", async () => {
  const { standby, primary } = pair;
  const proxy = await startPostgresProxy(primary.port);
  const closed = Number(new URL(proxy.urlOf(pair.url)).port);
  await proxy.stop();
  const url = urlOf(closed, standby.port);
  await expect(openReplica(url, { connectTimeoutMs: 0 })).rejects.toThrow(
    `no Postgres server takes writes (127.0.0.1:${closed}: connect ECONNREFUSED 127.0.0.1:${closed}; ` +
      `127.0.0.1:${standby.port}: this Postgres server can only be read from)`,
  );
  await expect(openReplica(`${url}_unknown`)).rejects.toThrow(/_unknown" does not exist/);
});

test("Each new connection reads the password from its file", async () => {
  const { primary, url } = pair;
  const folder = await mkdtemp(join(tmpdir(), "jobgate-password-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const passwordFile = join(folder, "password");
  const query = (sql: string) => primary.query(url, sql);
  await query("CREATE ROLE keeper SUPERUSER LOGIN PASSWORD 'first'");
  await writeFile(
    join(primary.data, "pg_hba.conf"),
    "host all keeper 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n",
  );
  await query("SELECT pg_reload_conf()");
  const keepers = url.replace("postgres@", "keeper@");
  await writeFile(passwordFile, "wrong\n");
  await expect(openReplica(keepers, { passwordFile })).rejects.toThrow(/password authentication failed/);
  await writeFile(passwordFile, "first\n");
  const store = await openReplica(keepers, { passwordFile });
  onTestFinished(() => store.close());
  await acceptId(store);

  await query("ALTER ROLE keeper PASSWORD 'second'");
  await query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'");
  await expect.poll(() => store.status().reason).toMatch(/password authentication failed/);
  await rm(passwordFile);
  await expect.poll(() => store.status().reason).toMatch(/ENOENT/);
  await writeFile(passwordFile, "second");
  await expect.poll(() => store.status().writable).toBe(true);
  await acceptId(store);
});

test("A primary that goes silent is left once another server takes writes, without waiting for its answers", async () => {
  const { primary, standby } = pair;
  const proxy = await startPostgresProxy(primary.port);
  onTestFinished(() => proxy.stop());
  const timeouts = { ...DEFAULT_TIMEOUTS, hangMs: 500, answerMs: 300_000 };
  const store = await openReplica(urlOf(Number(new URL(proxy.urlOf(pair.url)).port), standby.port), {
    timeouts,
  });
  onTestFinished(() => store.close());
  await acceptId(store);
  proxy.setStalled(true);
  const unanswered = acceptId(store).catch(() => 0);
  await standby.promote();
  await expect.poll(() => acceptId(store).catch(() => 0), { timeout: LEFT_MS }).toBeGreaterThan(0);
  await unanswered;
});
