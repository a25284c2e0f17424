import { describe, expect, test } from "vitest";
import { howMany } from "../../helpers/how-many.ts";
import { startPgBouncer } from "../../helpers/pgbouncer.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { describeStoreContract } from "../../store/store-contract.ts";
import { acceptId, claimCalls, paidId } from "../../store/store-fixtures.ts";
import { openInDatabase, openReplica } from "./open-in-database.ts";

/** The pooler keeps connections to the database of each test for a while. */
const postgres = startBeforeAll(() => startPostgres({ settings: { max_connections: "1000" } }));
const pooler = startBeforeAll(() => startPgBouncer(postgres));

/** New databases, whose URLs lead through the pooler. */
const pooled = {
  createDatabase: async () => pooler.urlOf(await postgres.createDatabase()),
};

/** The whole contract takes minutes. In short runs, differential.full.test.ts compares random operations through the pooler with SQLite. */
if (howMany(false, true))
  describeStoreContract("The Postgres store through PgBouncer in transaction mode", (options) =>
    openInDatabase(pooled, { ...options, listen: false }),
  );

describe("Through PgBouncer in transaction mode", () => {
  test("No session has a prepared statement, a setting, a lock or a listener of jobgate", async () => {
    const url = await postgres.createDatabase();
    const store = await openReplica(pooler.urlOf(url), { listen: false });
    await Promise.all(Array.from({ length: 50 }, () => acceptId(store)));
    await Promise.all(Array.from({ length: 10 }, () => store.totals()));
    expect(await claimCalls(store, { limit: 50 })).toHaveLength(50);
    // Each connection of the pooler in turn.
    for (let connection = 0; connection < 20; connection += 1) {
      const [left] = await postgres.query(
        pooler.urlOf(url),
        `SELECT (SELECT count(*)::int FROM pg_prepared_statements) AS statements,
                (SELECT count(*)::int FROM pg_listening_channels()) AS channels,
                (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory') AS locks,
                (SELECT string_agg(name, ', ') FROM pg_settings
                  WHERE source = 'session' AND name IN ('statement_timeout', 'lock_timeout', 'jit', 'enable_seqscan',
                    'idle_in_transaction_session_timeout', 'default_transaction_isolation')) AS settings`,
      );
      expect(left).toEqual({ statements: 0, channels: 0, locks: 0, settings: null });
    }
    await store.close();
  });

  test("Replicas share work, and each statement has the limits of jobgate", async () => {
    const url = await postgres.createDatabase();
    const open = () => openReplica(pooler.urlOf(url), { listen: false });
    // Together: they agree on who makes the tables.
    const [one, other] = await Promise.all([open(), open()]);
    const callId = await paidId(one, 1);
    expect((await claimCalls(other)).map((call) => call.callId)).toEqual([callId]);

    const lock = await postgres.hold(url, "LOCK TABLE jobgate.job_calls IN ACCESS EXCLUSIVE MODE");
    await expect(one.findCall(callId)).rejects.toMatchObject({
      cause: { message: expect.stringContaining("lock timeout") },
    });
    await lock.commit();
    expect(await one.findCall(callId)).toBeDefined();
    await Promise.all([one.close(), other.close()]);
  });
});
