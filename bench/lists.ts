import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openPostgresStore } from "../src/parts/postgres/postgres-store.ts";
import type { CallFilter } from "../src/store/contract/operator-lists.ts";
import { openDriver } from "../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../src/store/store.ts";
import { startPostgres } from "../test/helpers/postgres.ts";
import { percentile } from "./load.ts";

/** Finished calls, every tenth paid for. */
const CALLS = 3_000_000;
const PAID_EVERY = 10;
/** Dead letters, of 20 jobs and with 10 reasons. */
const DEAD_LETTERS = 100_000;
const DAYS = 90;
const DAY_MS = 86_400_000;
/** Pages asked for with each filter, at random depths. */
const PAGES = 100;
const LAST_ID = CALLS + DEAD_LETTERS;
const NOW = Date.now();

const options = { maxPending: 1_000, encodeJobCall: ({ body }: { body: Uint8Array }) => body };

/** Measures pages of the operator's lists, deep ones too, in both stores. */
export async function benchLists(): Promise<void> {
  console.log(
    `\nPages of 50 of ${CALLS} finished calls, ${CALLS / PAID_EVERY} payments and ${DEAD_LETTERS} dead letters`,
  );
  const folder = await mkdtemp(join(tmpdir(), "jobgate-lists-"));
  try {
    console.table(await measureSqlite(join(folder, "jobgate.db")));
  } finally {
    await rm(folder, { recursive: true });
  }
  console.table(await measurePostgres());
}

async function measureSqlite(path: string): Promise<object[]> {
  await (await openSqliteStore({ ...options, path })).close();
  const database = openDriver(path);
  for (const setting of ["journal_mode = OFF", "synchronous = OFF", "cache_size = -1000000"])
    database.prepare(`PRAGMA ${setting}`).all([]);
  const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${CALLS})`;
  const format = (digits: number, number: string) => `printf('%0${digits}x', ${number})`;
  database.exec("BEGIN");
  for (const insert of inserts({ numbers, schema: "", format, bytes: (text) => `CAST(${text} AS BLOB)` }))
    database.exec(insert);
  database.exec(
    "UPDATE job_calls SET dead_group = origin || ' ' || service_id || ' ' || job_id || ' ' || dead_reason",
  );
  database.exec("COMMIT");
  database.close();
  const startedAt = performance.now();
  const store = await openSqliteStore({ ...options, path });
  return measure("SQLite", store, performance.now() - startedAt);
}

async function measurePostgres(): Promise<object[]> {
  const postgres = await startPostgres();
  try {
    const url = await postgres.createDatabase();
    await (await openPostgresStore({ ...options, url })).close();
    const numbers = `WITH n (i) AS (SELECT generate_series(1, ${CALLS}))`;
    const format = (digits: number, number: string) => `lpad(to_hex(${number}), ${digits}, '0')`;
    for (const insert of inserts({
      numbers,
      schema: "jobgate.",
      format,
      bytes: (text) => `(${text})::bytea`,
    }))
      await postgres.query(url, insert);
    await postgres.query(url, "VACUUM ANALYZE");
    const startedAt = performance.now();
    const store = await openPostgresStore({ ...options, url });
    return await measure("Postgres", store, performance.now() - startedAt);
  } finally {
    await postgres.stop();
  }
}

/** SQL that makes the payments and the finished calls: 20 jobs, of which job 7 is rare and old, and 1,000 payers. */
function inserts(dialect: {
  readonly numbers: string;
  readonly schema: string;
  format(digits: number, number: string): string;
  bytes(text: string): string;
}): string[] {
  const { numbers, schema, format, bytes } = dialect;
  const at = `${NOW - DAYS * DAY_MS} + CAST(i AS bigint) * ${(DAYS * DAY_MS) / CALLS}`;
  const hash = format(64, "i");
  const paid = `i % ${PAID_EVERY} = 0`;
  const job = "CASE WHEN i % 20 = 7 AND i > 100000 THEN 8 ELSE i % 20 END";
  return [
    `${numbers} INSERT INTO ${schema}payments (network, asset, payer, nonce, state, call_id, service_id, job_index,
        fingerprint, body_hash, x402_version, payload, requirements, transfer_method, pay_to, amount, symbol, price_wei,
        valid_before_secs, receipt, settlement, created_at, updated_at)
      SELECT 'eip155:8453', '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', '0x' || ${format(40, "i % 1000")}, ${hash},
        CASE WHEN i % 1000 = 0 THEN 'failed' ELSE 'settled' END, i, '1', ${job}, ${hash}, ${hash}, 2, ${hash}, ${hash},
        'eip3009', '0xd', '10000', 'USDC', '1', 1800000000, ${hash}, '{}', ${at}, ${at} FROM n WHERE ${paid}`,
    `${numbers} INSERT INTO ${schema}finished_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at,
        finished_at, subscriber, claimed_at, head)
      SELECT i, CASE WHEN ${paid} THEN 'x402' ELSE 'webhook' END, CAST(${job} AS TEXT), '1',
        CASE WHEN i % 5000 = 1 THEN 'failed' ELSE 'succeeded' END, 1, ${at}, ${at}, 'worker-1', ${at},
        ${bytes(`'X-WEBHOOK-PATH/hooks/github X-GitHub-Delivery ' || ${hash}`)} FROM n WHERE NOT (${paid} AND i % 1000 = 0)`,
    `${numbers} INSERT INTO ${schema}job_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at, dead_at,
        dead_reason)
      SELECT ${CALLS} + i, 'webhook', CAST(i % 20 AS TEXT), '1', 'dead', 3, ${NOW} + i, ${NOW} + i,
        'exit code ' || CAST(i % 9 AS TEXT) || ': the database is down' FROM n WHERE i <= ${DEAD_LETTERS}`,
  ];
}

const payer = `0x${"0".repeat(38)}${(10).toString(16).padStart(2, "0")}`;
const week = { since: NOW - 50 * DAY_MS, until: NOW - 43 * DAY_MS };
const FILTERS: readonly (Omit<CallFilter, "limit"> & { readonly depth?: number })[] = [
  {},
  { state: "done" },
  { state: "dropped" },
  { state: "ready" },
  { state: "dead" },
  { state: "dead", jobId: 3n },
  { state: "dead", origin: "webhook", serviceId: 1n, jobId: 3n, reason: "exit code 3: the database is down" },
  { origin: "x402" },
  { origin: "webhook" },
  { jobId: 3n },
  { jobId: 7n },
  { jobId: 3n, state: "dropped" },
  { payer },
  { payer, jobId: 10n },
  week,
  { ...week, jobId: 3n },
  { text: "0000000000000000000000000000000000000000000000000000000000002a5b" },
];

async function measure(name: string, store: Store, startMs: number): Promise<object[]> {
  const rows: object[] = [{ "": `${name}, start`, "p50 ms": startMs.toFixed(0) }];
  const add = async (list: string, ask: () => Promise<unknown>, pages = PAGES) => {
    const times: number[] = [];
    for (let page = 0; page < pages; page += 1) {
      const from = performance.now();
      await ask();
      times.push(performance.now() - from);
    }
    const first = times[0]?.toFixed(1);
    const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)].map((ms) => ms.toFixed(1));
    rows.push({ "": `${name}, ${list}`, "first ms": first, "p50 ms": p50, "p99 ms": p99 });
  };
  try {
    // SQLite's first lookup for the operator starts its thread.
    await add("first lookup of all", () => store.findDeadLetter(1), 1);
    await add("listDeadLetterGroups", () => store.listDeadLetterGroups(500));
    await add("totals", () => store.totals());
    for (const list of ["listCalls", "listPayments"] as const) {
      const filters =
        list === "listCalls"
          ? FILTERS
          : [
              {},
              { state: "settled" },
              { state: "failed" },
              { jobId: 10n },
              { payer },
              { ...week, payer },
              week,
            ];
      for (const filter of filters) {
        let page = 0;
        await add(`${list} ${describe(filter)}`, () => {
          // The first page, and pages at any depth.
          const before = page++ % 10 === 0 ? undefined : 1 + Math.floor(Math.random() * LAST_ID);
          return store[list]({ ...(filter as object), limit: 51, before });
        });
      }
    }
  } finally {
    await store.close();
  }
  return rows;
}

function describe(filter: object): string {
  return Object.entries(filter)
    .map(([key, value]) => (typeof value === "bigint" || String(value).length < 10 ? `${key} ${value}` : key))
    .join(", ");
}
