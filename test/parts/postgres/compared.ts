import pg from "pg";
import { inspectPostgres } from "../../../src/parts/postgres/inspect.ts";
import type { PgBouncer } from "../../helpers/pgbouncer.ts";
import type { Postgres } from "../../helpers/postgres.ts";
import type { Compared } from "../../store/differential/side.ts";
import type { Row } from "../../store/differential/tables.ts";
import { SQLITE } from "../../store/sqlite/compared.ts";
import { MEMORY } from "./memory/compared.ts";
import { openReplica, PATIENT } from "./open-in-database.ts";

const INT8_OID = 20;
/**
 * Both stores, and the Postgres store on a server in memory. Each run has a new database on the server.
 * @param pooler what the store's connections lead through, if not straight to the server
 */
export function allStores(postgres: Postgres, pooler?: PgBouncer): Compared[] {
  const name = pooler === undefined ? "Postgres" : "Postgres through PgBouncer";
  return [SQLITE, { name, atOnce: true, open: (options) => open(postgres, pooler, options) }, MEMORY];
}

async function open(
  postgres: Postgres,
  pooler: PgBouncer | undefined,
  options: Parameters<Compared["open"]>[0],
): ReturnType<Compared["open"]> {
  const url = await postgres.createDatabase();
  const own = pooler === undefined ? { url } : { url: pooler.urlOf(url), listen: false };
  const store = await openReplica(own.url, { ...options, ...own, timeouts: PATIENT });
  const reader = new pg.Client({ connectionString: url, types: { getTypeParser } });
  await reader.connect();
  return {
    store,
    rows: async (table) => (await reader.query<Row>(`SELECT * FROM jobgate.${table}`)).rows,
    async check() {
      const inspection = await inspectPostgres({ url });
      try {
        return await inspection.check();
      } finally {
        await inspection.close();
      }
    },
    async dispose() {
      await reader.end();
      await store.close();
      await postgres.query(
        url.replace(/[^/]+$/, "postgres"),
        `DROP DATABASE ${url.split("/").at(-1)} WITH (FORCE)`,
      );
    },
  };
}

function getTypeParser(oid: number, format?: "text" | "binary"): (value: string) => unknown {
  return oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format);
}
