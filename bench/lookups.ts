import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDriver } from "../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../src/store/store.ts";
import { percentile } from "./load.ts";
import type { Tree } from "./trees.ts";

const PAYMENTS = 1_000_000;
const IN_FLIGHT = 8;
const SECONDS = 4;
const DAY_MS = 86_400_000;

/** Measures lookups of finished paid calls in SQLite, alone and while the operator's page asks for its reports. */
export async function benchLookups(trees: readonly Tree[]): Promise<void> {
  console.log(`\nLookups of ${PAYMENTS} paid calls of 30 days, ${IN_FLIGHT} in flight`);
  const rows: object[] = [];
  for (const tree of trees) {
    const folder = await mkdtemp(join(tmpdir(), "jobgate-lookups-"));
    try {
      rows.push(...(await measure(tree, join(folder, "jobgate.db"))));
    } finally {
      await rm(folder, { recursive: true });
    }
  }
  console.table(rows);
}

async function measure({ name, folder }: Tree, path: string): Promise<object[]> {
  const module =
    folder === undefined ? undefined : await import(`${folder}/src/store/sqlite/sqlite-store.ts`);
  const openStore: typeof openSqliteStore = module?.openSqliteStore ?? openSqliteStore;
  const open = () => openStore({ path, maxPending: 1_000, encodeJobCall: ({ body }) => body });
  await (await open()).close();
  fill(path);
  const store = await open();
  const alone = await lookUp(store, () => Promise.resolve([]));
  const beside = await lookUp(store, (end) => repeat(end, () => report(store)));
  await store.close();
  const row = (what: string, { lookups, reports }: typeof alone) => ({
    "": `${name}, ${what}`,
    "lookups/s": Math.round(lookups.length / SECONDS),
    "p50 ms": percentile(lookups, 0.5).toFixed(2),
    "p99 ms": percentile(lookups, 0.99).toFixed(2),
    ratio: (lookups.length / alone.lookups.length).toFixed(2),
    "report p50 ms": reports.length === 0 ? "" : percentile(reports, 0.5).toFixed(0),
  });
  return [row("alone", alone), row("beside reports", beside)];
}

/** Fills the tables with settled payments and their results. */
function fill(path: string): void {
  const database = openDriver(path);
  for (const setting of ["journal_mode = OFF", "synchronous = OFF", "cache_size = -2000000"]) {
    database.prepare(`PRAGMA ${setting}`).all([]);
  }
  const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${PAYMENTS})`;
  const at = `${Date.now() - 30 * DAY_MS} + i * ${30 * DAY_MS} / ${PAYMENTS}`;
  database.exec("BEGIN");
  database.exec(`${numbers}
    INSERT INTO payments (network, asset, payer, nonce, state, call_id, service_id, job_index, fingerprint, body_hash,
      x402_version, payload, requirements, transfer_method, pay_to, amount, symbol, decimals, rate, price_wei,
      valid_before_secs, receipt, settlement, created_at, updated_at)
    SELECT 'eip155:8453', '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', printf('0x%040x', i % 1000), printf('0x%064x', i),
      'settled', i, '1', 0, printf('%064x', i), printf('%064x', i), 2, printf('%.400c', 'x'), printf('%.200c', 'x'),
      'eip3009', '0xd', '10000', 'USDC', 6, '1', '1', 1800000000, printf('%064x', i), '{}', ${at}, ${at} FROM n`);
  database.exec(`${numbers}
    INSERT INTO results (call_id, state, attempt, enqueued_at, finished_at, body, content_type)
    SELECT i, 'succeeded', 1, ${at}, ${at}, zeroblob(200), 'text/plain' FROM n`);
  database.exec(`INSERT INTO revenue_hours SELECT updated_at / 3600000, network, asset, symbol, 0, sum(10000), count(*)
    FROM payments GROUP BY 1, 2, 3, 4`);
  database.exec("COMMIT");
  database.close();
}

/** Returns the milliseconds of each lookup, and of each report that `reportsUntil` makes beside them. */
async function lookUp(store: Store, reportsUntil: (end: number) => Promise<number[]>) {
  const end = performance.now() + SECONDS * 1_000;
  const find = () => store.findCall(1 + Math.floor(Math.random() * PAYMENTS));
  const [reports, ...lookups] = await Promise.all([
    reportsUntil(end),
    ...Array.from({ length: IN_FLIGHT }, () => repeat(end, find)),
  ]);
  return { reports, lookups: lookups.flat() };
}

async function repeat(end: number, work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  while (performance.now() < end) {
    const from = performance.now();
    await work();
    times.push(performance.now() - from);
  }
  return times;
}

/** Asks what the operator's page asks for on opening. */
function report(store: Store): Promise<unknown> {
  const since = Math.floor(Date.now() / DAY_MS - 29) * DAY_MS;
  return Promise.all([store.revenue({ since, bucketMs: DAY_MS }), store.totals()]);
}
