import type pg from "pg";
import type { Finding, StoredRows, StoreInfo, StoreInspection } from "../../store/contract/inspection.ts";
import { countRows, findProblems, problemTexts, toStoredRows } from "../../store/inspection-queries.ts";
import { newestVersion, requireNewest } from "../../store/schema-version.ts";
import { BoundedClient, DEFAULT_TIMEOUTS, type PostgresAddress } from "./connection/connect.ts";
import { Servers } from "./connection/servers.ts";
import { readSchema } from "./migrate.ts";
import { MIGRATIONS } from "./schema/migrations.ts";

/** Time limit of one count. Counting millions of rows takes seconds. */
const COUNT_MS = 300_000;

/** @throws Error when the database cannot be reached, or has no store */
export async function inspectPostgres(address: PostgresAddress): Promise<StoreInspection> {
  const servers = new Servers({
    address,
    timeouts: DEFAULT_TIMEOUTS,
    logger: undefined,
    onMoved: () => undefined,
  });
  if (servers.areSeveral) await servers.search();
  const { host, pathname } = new URL(servers.address.url);
  const place = `${host}${pathname}`;
  const client = new BoundedClient(servers.address, { ...DEFAULT_TIMEOUTS, answerMs: COUNT_MS });
  await client.connect();
  const { version: schemaVersion } = await readSchema(client).catch(async (cause: Error) => {
    await client.end();
    throw new Error(`${place}: ${cause.message}`, { cause });
  });
  if (schemaVersion === 0) {
    await client.end();
    throw new Error(`there is no store in ${place}: it has no schema jobgate`);
  }
  const isKnown = schemaVersion === newestVersion(MIGRATIONS);

  async function info(): Promise<StoreInfo> {
    const { rows: sizes } = await client.query<{ bytes: string }>(
      `SELECT sum(pg_total_relation_size(oid)) AS bytes FROM pg_class
        WHERE relnamespace = 'jobgate'::regnamespace AND relkind = 'r'`,
    );
    const about = { kind: "Postgres", place, bytes: Number(sizes[0]?.bytes ?? 0), schemaVersion } as const;
    if (!isKnown) return about;
    return { ...about, rows: toStoredRows((await client.query<StoredRows>(countRows("jobgate."))).rows) };
  }

  return {
    info,
    async check() {
      requireNewest(MIGRATIONS, schemaVersion, place);
      // One statement reads one snapshot. The journal balances only within a snapshot.
      return problemTexts((await client.query<Finding>(findProblems("jobgate."))).rows);
    },
    async read<Row>(sql: (schema: string) => string) {
      requireNewest(MIGRATIONS, schemaVersion, place);
      return (await client.query<Row & pg.QueryResultRow>(sql("jobgate."))).rows;
    },
    backup: () =>
      Promise.reject(
        new Error(
          `${place} is a Postgres database: back it up with pg_dump --schema=jobgate, or as you back up Postgres`,
        ),
      ),
    close: () => client.end(),
  };
}
