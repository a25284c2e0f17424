import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { type Postgres, startPostgres } from "../../helpers/postgres.ts";
import { type PostgresProxy, startPostgresProxy } from "../../helpers/postgres-proxy.ts";
import { acceptId, webhookCall } from "../../store/store-fixtures.ts";
import { openReplica } from "./open-in-database.ts";

/** Both have a database of the same name. */
let old: { server: Postgres; url: string };
let primary: { server: Postgres; url: string };
let proxy: PostgresProxy;
/** At the new primary from the beginning. */
let other: Store;
let store: Store;

async function startServer(): Promise<typeof old> {
  const server = await startPostgres();
  return { server, url: await server.createDatabase() };
}

async function setReadOnly(value: "on" | "off"): Promise<void> {
  await old.server.query(old.url, `ALTER SYSTEM SET default_transaction_read_only = ${value}`);
  await old.server.query(old.url, "SELECT pg_reload_conf()");
  const shown = () => old.server.query(old.url, "SHOW default_transaction_read_only");
  await expect.poll(shown).toEqual([{ default_transaction_read_only: value }]);
}

beforeAll(async () => {
  [old, primary] = await Promise.all([startServer(), startServer()]);
});
afterAll(() => Promise.all([old?.server.stop(), primary?.server.stop()]));
beforeEach(async () => {
  proxy = await startPostgresProxy(old.server.port);
  [store, other] = await Promise.all([openReplica(proxy.urlOf(old.url)), openReplica(primary.url)]);
});
afterEach(async () => {
  await setReadOnly("off");
  await Promise.all([store.close(), other.close()]);
  await proxy.stop();
});

describe("A fail-over that leaves the connections to the old primary open", () => {
  test("Operations that the old primary refuses run at the new one, which serves all connections from then on", async () => {
    // So that connections of all sorts are open.
    await Promise.all(
      Array.from({ length: 5 }, () => Promise.all([store.accept(webhookCall()), store.totals()])),
    );
    proxy.redirect(primary.server.port);
    await setReadOnly("on");

    // A store that notices the fail-over before the first operation refuses operations until it has found the new primary.
    await expect.poll(() => store.status().writable).toBe(true);
    const callId = await acceptId(store, { jobId: 99n });
    const found = await primary.server.query(
      primary.url,
      `SELECT FROM jobgate.job_calls WHERE call_id = ${callId} AND job_id = '99'`,
    );
    expect(found).toHaveLength(1);
    const totals = await Promise.all(Array.from({ length: 5 }, () => store.totals()));
    for (const { calls } of totals) expect(calls.ready).toBe((await other.totals()).calls.ready);
    await expect.poll(() => store.status().writable).toBe(true);

    let heard = 0;
    store.onWork(() => {
      heard += 1;
    });
    await expect
      .poll(async () => {
        await acceptId(other);
        return heard;
      })
      .toBeGreaterThan(0);
  });

  test("It is noticed without traffic", async () => {
    await acceptId(store);
    await setReadOnly("on");
    await expect.poll(() => store.status().reason).toMatch(/only be read/);
    proxy.redirect(primary.server.port);
    await expect.poll(() => store.status().writable).toBe(true);
    await acceptId(store);
  });
});
