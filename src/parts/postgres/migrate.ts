import type { ClientBase } from "pg";
import { missingTables } from "../../store/part-modules.ts";
import {
  missingMigrations,
  newestVersion,
  refuseNewer,
  refuseUnreleased,
} from "../../store/schema-version.ts";
import { MIGRATIONS, OLDEST_USABLE_BY, SCHEMA } from "./schema/migrations.ts";

/** Key of the advisory lock that the migrating replica holds: "jobg" in ASCII. */
const LOCK_KEY = 0x6a_6f_62_67;
/** Limit for each step. One replica migrates while the other replicas wait for it. */
const STEP_MS = 300_000;
/** The limit is longer than `STEP_MS`, at which the server itself ends a step, so only a lost connection reaches it. */
const ANSWER_MS = STEP_MS + 2_000;

/**
 * Brings the tables up to date. Safe to run by several replicas at once: one replica migrates, and the other replicas
 * wait and find the tables up to date. Tables of a newer jobgate stay as they are if this jobgate can still use them.
 * @throws Error when the tables are of a newer jobgate and this one cannot use them, or of an unreleased jobgate
 */
export async function migrate(client: ClientBase): Promise<void> {
  const newest = newestVersion(MIGRATIONS);
  if ((await schemaVersion(client)) >= newest && (await missingModules(client)).length === 0) return;
  await client.query("BEGIN");
  try {
    await client.query(`SET LOCAL lock_timeout = ${STEP_MS}; SET LOCAL statement_timeout = ${STEP_MS}`);
    await runStep(client, `SELECT pg_advisory_xact_lock(${LOCK_KEY})`);
    const version = await schemaVersion(client);
    if (version === 0) {
      await client.query(`
        CREATE SCHEMA IF NOT EXISTS jobgate;
        -- usable_from: schema version of the oldest jobgate that can use the tables.
        CREATE TABLE jobgate.schema_version (version int NOT NULL, usable_from int NOT NULL);
        INSERT INTO jobgate.schema_version VALUES (0, 0);`);
    }
    for (const migration of missingMigrations(MIGRATIONS, version)) await runStep(client, migration);
    for (const module of await missingModules(client)) await runStep(client, module);
    if (version < newest)
      await client.query("UPDATE jobgate.schema_version SET version = $1, usable_from = $2", [
        newest,
        OLDEST_USABLE_BY,
      ]);
    await client.query("COMMIT");
  } catch (error) {
    // Fails when the connection is lost; then there is nothing to roll back.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

async function missingModules(client: ClientBase): Promise<string[]> {
  const { rows } = await client.query<{ tablename: string }>(
    "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'jobgate'",
  );
  return missingTables(new Set(rows.map(({ tablename }) => tablename)), SCHEMA);
}

/** Runs one step, which may take longer than other queries. */
async function runStep(client: ClientBase, text: string): Promise<void> {
  // The driver accepts this for each query, although its types do not say so.
  const bound = { query_timeout: ANSWER_MS };
  await client.query({ text, ...bound });
}

/**
 * Returns 0 for a database without tables.
 * @throws Error when the tables are of a newer jobgate and this one cannot use them, or of an unreleased jobgate
 */
export async function schemaVersion(client: ClientBase): Promise<number> {
  // to_regclass would not see a table that another replica made since this connection last looked.
  const { rowCount } = await client.query(
    "SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'jobgate' AND tablename = 'schema_version'",
  );
  if (rowCount === 0) return 0;
  const { rows } = await client.query<{ version: number; usable_from: number }>(
    "SELECT version, usable_from FROM jobgate.schema_version",
  );
  const { version, usable_from: usableFrom } = rows[0] ?? { version: 0, usable_from: 0 };
  refuseNewer(MIGRATIONS, version, usableFrom);
  refuseUnreleased(version);
  return version;
}
