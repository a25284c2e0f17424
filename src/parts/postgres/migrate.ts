import type { ClientBase } from "pg";
import {
  missingTables,
  refuseIncompleteParts,
  refuseOtherParts,
  rowsOfOtherParts,
} from "../../store/part-modules.ts";
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
 * @throws Error when {@link readSchema} refuses the tables
 */
export async function migrate(client: ClientBase): Promise<void> {
  const newest = newestVersion(MIGRATIONS);
  const found = await readSchema(client);
  if (found.version >= newest && missingTables(found.tables, SCHEMA).length === 0) return;
  await client.query("BEGIN");
  try {
    await client.query(`SET LOCAL lock_timeout = ${STEP_MS}; SET LOCAL statement_timeout = ${STEP_MS}`);
    await runStep(client, `SELECT pg_advisory_xact_lock(${LOCK_KEY})`);
    const { version, tables } = await readSchema(client);
    if (version === 0) {
      await client.query(`
        CREATE SCHEMA IF NOT EXISTS jobgate;
        -- usable_from: schema version of the oldest jobgate that can use the tables.
        CREATE TABLE jobgate.schema_version (version int NOT NULL, usable_from int NOT NULL);
        INSERT INTO jobgate.schema_version VALUES (0, 0);`);
    }
    for (const migration of missingMigrations(MIGRATIONS, version)) await runStep(client, migration);
    for (const module of missingTables(tables, SCHEMA)) await runStep(client, module);
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

/** Runs one step, which may take longer than other queries. */
async function runStep(client: ClientBase, text: string): Promise<void> {
  // The driver accepts this for each query, although its types do not say so.
  const bound = { query_timeout: ANSWER_MS };
  await client.query({ text, ...bound });
}

/**
 * Returns the version of the tables, which is 0 for a database without tables, and their names.
 * @throws Error when the tables are of a newer jobgate and this one cannot use them, of an unreleased jobgate, or have rows
 *   of parts that this build lacks
 */
export async function readSchema(
  client: ClientBase,
): Promise<{ readonly version: number; readonly tables: ReadonlySet<string> }> {
  // to_regclass would not see a table that another replica made since this connection last looked.
  const { rows: found } = await client.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_catalog.pg_tables WHERE schemaname = 'jobgate'",
  );
  const tables = new Set(found.map(({ name }) => name));
  // The table of the version belongs to no migration.
  if (!tables.delete("schema_version")) return { version: 0, tables };
  const { rows } = await client.query<{ version: number; usable_from: number }>(
    "SELECT version, usable_from FROM jobgate.schema_version",
  );
  const { version, usable_from: usableFrom } = rows[0] ?? { version: 0, usable_from: 0 };
  refuseNewer(MIGRATIONS, version, usableFrom);
  refuseUnreleased(version);
  refuseIncompleteParts(tables, version, MIGRATIONS, SCHEMA);
  const others = rowsOfOtherParts(tables, version, MIGRATIONS, SCHEMA);
  if (others !== undefined) refuseOtherParts((await client.query<{ name: string }>(others)).rows);
  return { version, tables };
}
