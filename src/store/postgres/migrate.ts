import type { ClientBase } from "pg";
import { MIGRATIONS } from "./schema.ts";

/** Of the advisory lock that is held by who migrates: "jobg", in ASCII. */
const LOCK_KEY = 0x6a_6f_62_67;
/** For each step: one replica migrates while the others wait for it. */
const STEP_MS = 300_000;
/** The server ends a step itself, so that only a lost connection gets there. */
const ANSWER_MS = STEP_MS + 2_000;

/**
 * Brings the tables up to date. Safe to run by several replicas at once: one does it, the others wait and find it done.
 * @throws Error when the tables are a newer jobgate's
 */
export async function migrate(client: ClientBase): Promise<void> {
  if ((await schemaVersion(client)) === MIGRATIONS.length) return;
  await client.query("BEGIN");
  try {
    await client.query(`SET LOCAL lock_timeout = ${STEP_MS}; SET LOCAL statement_timeout = ${STEP_MS}`);
    await runStep(client, `SELECT pg_advisory_xact_lock(${LOCK_KEY})`);
    const version = await schemaVersion(client);
    if (version === 0) {
      await client.query(`
        CREATE SCHEMA IF NOT EXISTS jobgate;
        CREATE TABLE jobgate.schema_version (version int NOT NULL);
        INSERT INTO jobgate.schema_version VALUES (0);`);
    }
    for (const migration of MIGRATIONS.slice(version)) await runStep(client, migration);
    await client.query("UPDATE jobgate.schema_version SET version = $1", [MIGRATIONS.length]);
    await client.query("COMMIT");
  } catch (error) {
    // Fails where the connection has; then there is nothing to roll back.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** Waits longer than the connection does for its other answers. */
async function runStep(client: ClientBase, text: string): Promise<void> {
  // The driver takes it with each query, which its types do not say.
  const bound = { query_timeout: ANSWER_MS };
  await client.query({ text, ...bound });
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
