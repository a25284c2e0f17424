import { startPostgres } from "../test/helpers/postgres.ts";
import { startTree, type TreeGateway } from "./gateway.ts";
import { type Contestant, compete, type LoadResult, loadRow, withBaseline } from "./load.ts";
import type { Tree } from "./trees.ts";

const REPLICAS = [1, 3];
const CONNECTIONS = 192;
const BODY = "x".repeat(256);

/** Measures durable webhook accepts with Postgres, beside one row a transaction. */
export async function benchPostgres(trees: readonly Tree[]): Promise<void> {
  const postgres = await startPostgres();
  const gateways: TreeGateway[] = [];
  try {
    const database = await postgres.createDatabase();
    await withBaseline(
      "one-row-a-transaction",
      async ([url], pid) => {
        const contestants = [hook("one row a transaction", [{ url: `${url}`, pid }])];
        for (const tree of trees) {
          for (const count of REPLICAS) {
            const store = await postgres.createDatabase();
            const replicas: TreeGateway[] = [];
            for (let i = 0; i < count; i += 1) replicas.push(await startTree(tree, { store }));
            gateways.push(...replicas);
            const servers = replicas.map(({ jobgate }) => ({ url: jobgate.webhooksUrl, pid: jobgate.pid }));
            contestants.push(hook(`${tree.name}, ${count} ${count === 1 ? "replica" : "replicas"}`, servers));
          }
        }
        const results = await compete(contestants);
        const [plain] = results as [LoadResult, ...LoadResult[]];
        console.log(`\nWebhook accepts into Postgres, ${BODY.length} B, ${CONNECTIONS} in flight in total`);
        console.table(
          results.map((result, i) => ({
            "": contestants[i]?.name,
            ...loadRow(result),
            "of plain inserts": (result.perSecond / plain.perSecond).toFixed(2),
          })),
        );
      },
      [database],
    );
  } finally {
    await Promise.all(gateways.map(({ jobgate }) => jobgate.stop()));
    await postgres.stop();
  }
}

function hook(name: string, servers: readonly { readonly url: string; readonly pid: number }[]): Contestant {
  return {
    name,
    pids: servers.map(({ pid }) => pid),
    target: {
      urls: servers.map(({ url }) => `${url}/hooks/bench`),
      body: BODY,
      status: 202,
      connections: CONNECTIONS,
    },
  };
}
