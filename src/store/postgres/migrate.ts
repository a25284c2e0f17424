import type { ClientBase } from "pg";
import { MIGRATIONS } from "./schema.ts";

/** Of the advisory lock that is held by who migrates: "jobg", in ASCII. */
const LOCK_KEY = 0x6a_6f_62_67;
/** One replica migrates while the others wait for it. */
const MIGRATION_TIMEOUT_MS = 300_000;

/**
 * Brings the tables up to date. Safe to run by several replicas at once: one does it, the others wait and find it done.
 * @throws Error when the tables are a newer jobgate's
 */
export async function migrate(client: ClientBase): Promise<void> {
  if ((await schemaVersion(client)) === MIGRATIONS.length) return;
  await client.query("BEGIN");
  try {
    await client.query(
      `SET LOCAL lock_timeout = ${MIGRATION_TIMEOUT_MS}; SET LOCAL statement_timeout = ${MIGRATION_TIMEOUT_MS}`,
    );
    await client.query(`SELECT pg_advisory_xact_lock(${LOCK_KEY})`);
    const version = await schemaVersion(client);
    if (version === 0) {
      await client.query(`
        CREATE SCHEMA IF NOT EXISTS jobgate;
        CREATE TABLE jobgate.schema_version (version int NOT NULL);
        INSERT INTO jobgate.schema_version VALUES (0);`);
    }
    for (const migration of MIGRATIONS.slice(version)) await client.query(migration);
    await client.query("UPDATE jobgate.schema_version SET version = $1", [MIGRATIONS.length]);
    await client.query("COMMIT");
  } catch (error) {
    // Fails where the connection has; then there is nothing to roll back.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** 0 for a database without tables. */
async function schemaVersion(client: ClientBase): Promise<number> {
  // By to_regclass, a table that another has made since this connection last looked would not be seen.
  const { rowCount } = await client.query(
    "SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'jobgate' AND tablename = 'schema_version'",
  );
  if (rowCount === 0) return 0;
  const { rows } = await client.query<{ version: number }>("SELECT version FROM jobgate.schema_version");
  const version = rows[0]?.version ?? 0;
  if (version > MIGRATIONS.length) {
    throw new Error(`the database has schema version ${version}; this jobgate knows ${MIGRATIONS.length}`);
  }
  return version;
}
