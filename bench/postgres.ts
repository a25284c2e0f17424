import { type Postgres, startPostgres } from "../test/helpers/postgres.ts";
import { startTree, type TreeGateway } from "./gateway.ts";
import { benchJobs } from "./jobs.ts";
import { type Contestant, compete, type LoadResult, loadRow, withBaseline } from "./load.ts";
import { measureMany, rowOf, startEvm } from "./paid.ts";
import { agent } from "./payments.ts";
import type { Tree } from "./trees.ts";

const REPLICAS = [1, 2, 3];
const IN_FLIGHT = [1, 16, 192];
const BODY = "x".repeat(256);

/** Measures accepts, jobs and payments with Postgres. */
export async function benchPostgres(trees: readonly Tree[]): Promise<void> {
  const postgres = await startPostgres();
  try {
    await benchAccepts(postgres, trees);
    await benchJobs(trees, () => postgres.createDatabase());
    await benchPayments(postgres, trees);
  } finally {
    await postgres.stop();
  }
}

/** Measures durable webhook accepts, beside one row a transaction. */
async function benchAccepts(postgres: Postgres, trees: readonly Tree[]): Promise<void> {
  const gateways: TreeGateway[] = [];
  try {
    const database = await postgres.createDatabase();
    await withBaseline(
      "one-row-a-transaction",
      async ([url], pid) => {
        const servers: Record<string, readonly Server[]> = {
          "one row a transaction": [{ url: `${url}`, pid }],
        };
        for (const tree of trees) {
          for (const count of REPLICAS) {
            const store = await postgres.createDatabase();
            const replicas: TreeGateway[] = [];
            for (let i = 0; i < count; i += 1) replicas.push(await startTree(tree, { store }));
            gateways.push(...replicas);
            servers[`${tree.name}, ${count} ${count === 1 ? "replica" : "replicas"}`] = replicas.map(
              ({ jobgate }) => ({ url: jobgate.webhooksUrl, pid: jobgate.pid }),
            );
          }
        }
        for (const connections of IN_FLIGHT) {
          // Each replica has a connection.
          const contestants = Object.entries(servers)
            .filter(([, ofName]) => ofName.length <= connections)
            .map(([name, ofName]) => hook(name, ofName, connections));
          const results = await compete(contestants);
          const [plain] = results as [LoadResult, ...LoadResult[]];
          console.log(`\nWebhook accepts into Postgres, ${BODY.length} B, ${connections} in flight in total`);
          console.table(
            results.map((result, i) => ({
              "": contestants[i]?.name,
              ...loadRow(result),
              "of plain inserts": (result.perSecond / plain.perSecond).toFixed(2),
            })),
          );
        }
      },
      [database],
    );
  } finally {
    await Promise.all(gateways.map(({ jobgate }) => jobgate.stop()));
  }
}

/** Measures paid requests that are confirmed on chain, beside the facilitator alone. */
async function benchPayments(postgres: Postgres, trees: readonly Tree[]): Promise<void> {
  const evm = await startEvm();
  const one: object[] = [];
  const many: object[] = [];
  try {
    for (const tree of trees) {
      const storeOf = { store: await postgres.createDatabase() };
      one.push(rowOf(tree.name, await evm.measureOne(tree, false, storeOf)));
      many.push(await measureMany(tree.name, tree, evm.payments, { store: await postgres.createDatabase() }));
    }
  } finally {
    agent.destroy();
    await evm.stop();
  }
  console.log("\nPaid requests with Postgres, one at a time, and many at a time");
  console.table(one);
  console.table(many);
}

interface Server {
  readonly url: string;
  readonly pid: number;
}

function hook(name: string, servers: readonly Server[], connections: number): Contestant {
  return {
    name,
    pids: servers.map(({ pid }) => pid),
    target: {
      urls: servers.map(({ url }) => `${url}/hooks/bench`),
      body: BODY,
      status: 202,
      connections,
    },
  };
}
