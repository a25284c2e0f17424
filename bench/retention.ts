import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { openStore } from "../src/open-store.ts";
import { openDriver } from "../src/store/sqlite/driver.ts";
import { startPostgres } from "../test/helpers/postgres.ts";
import { CONNECTIONS } from "./accepts.ts";
import { startTree } from "./gateway.ts";
import { compete, type LoadResult, loadRow } from "./load.ts";
import type { Tree } from "./trees.ts";

const CALLS = 1_000_000;
const silent = pino({ level: "silent" });
const BODY = "x".repeat(256);
/** Everything that ended is old after ten seconds, or never. */
const PRUNES = "retention.calls_days = 0.0001";
const KEEPS = "retention.calls_days = 36500";

/** Measures webhook accepts while a million finished calls are pruned, beside the same store without pruning. */
export async function benchRetention([tree]: readonly Tree[]): Promise<void> {
  if (tree === undefined) return;
  const folder = await mkdtemp(join(tmpdir(), "jobgate-retention-"));
  const postgres = await startPostgres();
  try {
    const path = join(folder, "jobgate.db");
    const sqlite = { url: `sqlite:${path}`, run: async (sql: string) => runOn(path, sql) };
    const url = await postgres.createDatabase();
    const shared = { url, run: (sql: string) => postgres.query<{ left: string }>(url, sql) };
    console.log(`\nWebhook accepts, ${CONNECTIONS} in flight, while ${CALLS} finished calls are pruned`);
    console.table([
      ...(await measure("SQLite", tree, sqlite, {
        numbers: `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${CALLS})`,
        schema: "",
      })),
      ...(await measure("Postgres", tree, shared, {
        numbers: `WITH n (i) AS (SELECT generate_series(1, ${CALLS}))`,
        schema: "jobgate.",
      })),
    ]);
  } finally {
    await postgres.stop();
    await rm(folder, { recursive: true });
  }
}

interface FilledStore {
  readonly url: string;
  run(sql: string): Promise<readonly { left: string | number }[]>;
}

async function measure(
  name: string,
  tree: Tree,
  { url, run }: FilledStore,
  { numbers, schema }: { readonly numbers: string; readonly schema: string },
): Promise<object[]> {
  await (await openStore({ url, maxPending: 1 }, silent)).close();
  await run(`${numbers} INSERT INTO ${schema}finished_calls (call_id, origin, job_id, service_id, state, attempts,
      enqueued_at, finished_at, subscriber, claimed_at)
    SELECT i, 'webhook', CAST(i % 20 AS TEXT), '1', 'succeeded', 1, 1, 1, 'worker', 1 FROM n`);
  const load = async (storeKeys: string) => {
    const { jobgate } = await startTree(tree, { store: url, storeKeys });
    const target = {
      urls: [`${jobgate.webhooksUrl}/hooks/bench`],
      body: BODY,
      status: 202,
      connections: CONNECTIONS,
    };
    try {
      const [result] = await compete([{ name, pids: [jobgate.pid], target }]);
      return result as LoadResult;
    } finally {
      await jobgate.stop();
    }
  };
  const before = await load(KEEPS);
  const pruning = await load(PRUNES);
  const [left] = await run(`SELECT count(*) AS left FROM ${schema}finished_calls`);
  const after = await load(KEEPS);
  const kept = (before.perSecond + after.perSecond) / 2;
  return [
    { "": `${name}, kept`, ...loadRow(before) },
    {
      "": `${name}, pruning`,
      ...loadRow(pruning),
      "of kept": (pruning.perSecond / kept).toFixed(2),
      pruned: CALLS - Number(left?.left),
    },
    { "": `${name}, kept`, ...loadRow(after) },
  ];
}

function runOn(path: string, sql: string): { left: number }[] {
  const database = openDriver(path);
  const rows = database.prepare<{ left: number }>(sql).all([]);
  database.close();
  return rows;
}
