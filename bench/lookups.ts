/*
 * Lookups of finished paid calls while the operator's page asks for revenue: builds a SQLite store with plain SQL, then
 * prints p50 and p99 of findCall. Usage: npx tsx bench/lookups.ts [PAYMENTS, default 3000000] [SECONDS, default 20]
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDriver } from "../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";

const [payments = 3_000_000, seconds = 20] = process.argv.slice(2).map(Number);
const DAY_MS = 86_400_000;
const folder = await mkdtemp(join(tmpdir(), "jobgate-lookups-"));
const path = join(folder, "jobgate.db");
const open = () => openSqliteStore({ path, maxPending: 1000, encodeJobCall: ({ body }) => body });

/** Fills the tables with settled payments of the last 30 days and their results. */
function build(): void {
  const database = openDriver(path);
  for (const setting of ["journal_mode = OFF", "synchronous = OFF", "cache_size = -2000000"])
    database.prepare(`PRAGMA ${setting}`).all([]);
  const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${payments})`;
  const at = `${Date.now() - 30 * DAY_MS} + i * ${30 * DAY_MS} / ${payments}`;
  database.exec("BEGIN");
  database.exec(`${numbers}
    INSERT INTO payments (network, asset, payer, nonce, state, call_id, service_id, job_index, fingerprint, body_hash,
      x402_version, payload, requirements, transfer_method, pay_to, amount, symbol, price_wei, valid_before_secs, receipt,
      settlement, created_at, updated_at)
    SELECT 'eip155:8453', '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', printf('0x%040x', i % 1000), printf('0x%064x', i),
      'settled', i, '1', 0, printf('%064x', i), printf('%064x', i), 2, printf('%.400c', 'x'), printf('%.200c', 'x'),
      'eip3009', '0xd', '10000', 'USDC', '1', 1800000000, printf('%064x', i), '{}', ${at}, ${at} FROM n`);
  database.exec(`${numbers}
    INSERT INTO results (call_id, state, attempt, enqueued_at, finished_at, body, content_type)
    SELECT i, 'succeeded', 1, ${at}, ${at}, zeroblob(200), 'text/plain' FROM n`);
  database.exec(`INSERT INTO revenue_hours SELECT updated_at / 3600000, network, asset, symbol, 0, sum(10000), count(*)
    FROM payments GROUP BY 1, 2, 3, 4`);
  database.exec("COMMIT");
  database.close();
}

const started = performance.now();
await (await open()).close();
build();
console.log(`built ${payments} paid calls in ${Math.round((performance.now() - started) / 1000)} s`);

const store = await open();
const end = performance.now() + seconds * 1000;
const lookups: number[] = [];
const reports: number[] = [];

async function timed(times: number[], work: () => Promise<unknown>): Promise<void> {
  while (performance.now() < end) {
    const from = performance.now();
    await work();
    times.push(performance.now() - from);
  }
}

const report = async () => {
  const since = Math.floor(Date.now() / DAY_MS - 29) * DAY_MS;
  await Promise.all([store.revenue({ since, bucketMs: DAY_MS }), store.totals()]);
};
const lookUp = () => store.findCall(1 + Math.floor(Math.random() * payments));
await Promise.all([timed(reports, report), ...Array.from({ length: 8 }, () => timed(lookups, lookUp))]);

const show = (name: string, times: number[]) => {
  const sorted = times.sort((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor(share * sorted.length)] ?? 0).toFixed(1);
  console.log(`${name}: ${sorted.length}, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(0.999999)} ms`);
};
show("findCall", lookups);
show("revenue of 30 days and totals", reports);
await store.close();
await rm(folder, { recursive: true });
