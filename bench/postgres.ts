import { type Jobgate, startJobgate } from "../test/helpers/jobgate-process.ts";
import { startPostgres } from "../test/helpers/postgres.ts";
import { type LoadResult, load, withBaseline } from "./load.ts";
import { BODY, CONFIG } from "./webhook.ts";

const REPLICAS = [1, 3];
/** Connections in total: 64 for each of three replicas. */
const CONNECTIONS = 192;

/** Measures durable webhook accepts per second with Postgres. */
export async function benchPostgres(): Promise<void> {
  const postgres = await startPostgres();
  try {
    const database = await postgres.createDatabase();
    const plain = await withBaseline("one-row-a-transaction", ([url]) => loadAll([`${url}`]), [database]);
    const rows = [row("one row per transaction, no runner", plain, plain)];
    for (const count of REPLICAS) {
      const accepts = await loadReplicas(await postgres.createDatabase(), count);
      rows.push(row(`jobgate, ${count} ${count === 1 ? "replica" : "replicas"}`, accepts, plain));
    }
    console.log(`\nWebhook accepts into Postgres, ${BODY.length} B, ${CONNECTIONS} in flight in total`);
    console.table(rows);
  } finally {
    await postgres.stop();
  }
}

async function loadReplicas(database: string, count: number): Promise<LoadResult> {
  const replicas: Jobgate[] = [];
  try {
    const config = CONFIG.replace("sqlite:bench.db", database);
    for (let i = 0; i < count; i++) replicas.push(await startJobgate({ config, from: "build" }));
    return await loadAll(replicas.map(({ webhooksUrl }) => webhooksUrl));
  } finally {
    await Promise.all(replicas.map((replica) => replica.stop()));
  }
}

/** Loads all URLs evenly, and returns the sum of their accepts and the worst of their latencies. */
async function loadAll(urls: readonly string[]): Promise<LoadResult> {
  const connections = Math.round(CONNECTIONS / urls.length);
  const results = await Promise.all(urls.map((url) => load(`${url}/hooks/bench`, BODY, connections)));
  return {
    perSecond: results.reduce((sum, { perSecond }) => sum + perSecond, 0),
    p50: Math.max(...results.map(({ p50 }) => p50)),
    p99: Math.max(...results.map(({ p99 }) => p99)),
  };
}

function row(name: string, result: LoadResult, plain: LoadResult) {
  return {
    "": name,
    "accepts/s": Math.round(result.perSecond),
    "p50 ms": result.p50,
    "p99 ms": result.p99,
    "of plain inserts": (result.perSecond / plain.perSecond).toFixed(2),
  };
}
