import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { encodeJobCall } from "../src/delivery/job-call-codec.ts";
import { openPostgresStore } from "../src/parts/postgres/postgres-store.ts";
import { SearchIndexer } from "../src/parts/search/indexer.ts";
import { SEARCH } from "../src/parts/search/store/module.ts";
import { openDriver } from "../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../src/store/store.ts";
import { startPostgres } from "../test/helpers/postgres.ts";
import { percentile } from "./load.ts";

/** Finished calls; every second is paid for. */
const CALLS = 100_000;
const DEAD_LETTERS = 626;
const SEARCHES = 50;
const ROUNDS = 10;
const ROUND_MS = 1_000;
const IN_FLIGHT = 64;
const NOW = Date.now();

const logger = pino({ level: "error" });
const options = { maxPending: 10_000_000, encodeJobCall, logger };

/** Measures the operator's search in both stores, and what its index costs accepts. */
export async function benchSearch(): Promise<void> {
  console.log(
    `\nSearches of ${CALLS + DEAD_LETTERS} calls, and accepts, ${IN_FLIGHT} in flight, with and without the index`,
  );
  const folder = await mkdtemp(join(tmpdir(), "jobgate-search-"));
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
  database.exec("BEGIN");
  for (const insert of inserts(SQLITE_FILL, CALLS, DEAD_LETTERS)) database.exec(insert);
  database.exec("COMMIT");
  database.close();
  return measure("SQLite", await openSqliteStore({ ...options, path }));
}

async function measurePostgres(): Promise<object[]> {
  const postgres = await startPostgres();
  try {
    const url = await postgres.createDatabase();
    await (await openPostgresStore({ ...options, url })).close();
    for (const insert of inserts(POSTGRES_FILL, CALLS, DEAD_LETTERS)) await postgres.query(url, insert);
    await postgres.query(url, "VACUUM ANALYZE");
    return await measure("Postgres", await openPostgresStore({ ...options, url }));
  } finally {
    await postgres.stop();
  }
}

/** What differs between the databases that are filled. */
export interface FillDialect {
  numbers(count: number): string;
  readonly schema: string;
  hex(digits: number, number: string): string;
  bytes(text: string): string;
}

export const SQLITE_FILL: FillDialect = {
  numbers: (count) => `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`,
  schema: "",
  hex: (digits, number) => `printf('%0${digits}x', ${number})`,
  bytes: (text) => `CAST(${text} AS BLOB)`,
};
export const POSTGRES_FILL: FillDialect = {
  numbers: (count) => `WITH n (i) AS (SELECT generate_series(1, ${count}))`,
  schema: "jobgate.",
  hex: (digits, number) => `lpad(to_hex(${number}), ${digits}, '0')`,
  bytes: (text) => `(${text})::bytea`,
};

/** SQL that makes the calls: 1,000 payers, and metadata with an ID of the sender's. */
export function inserts(dialect: FillDialect, calls: number, deadLetters: number): string[] {
  const { numbers, schema, hex, bytes } = dialect;
  const at = `${NOW - 3_600_000} + i`;
  const hash = hex(64, "i");
  const spread = hex(8, `CAST(i AS bigint) * 2654435761 % 4294967296`);
  // Field 5 of a JobCall: an entry of a name of 5 bytes and a value of 16.
  const [start, middle] = ["'*' || char(25) || char(10) || char(5)", "char(18) || char(16)"];
  const head = `${start} || 'X-REF' || ${middle} || 'delivery' || ${spread}`;
  return [
    `${numbers(calls)} INSERT INTO ${schema}payments (network, asset, payer, nonce, state, call_id, service_id, job_index,
        fingerprint, body_hash, x402_version, payload, requirements, transfer_method, pay_to, amount, charge, symbol, decimals,
        rate, price_wei, valid_before_secs, receipt, purchase_name, settlement, created_at, updated_at)
      SELECT 'eip155:8453', '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', '0x' || ${hex(40, "i % 1000")}, ${hash}, 'settled',
        i, '1', i % 20, ${hash}, ${hash}, 2, ${hash}, ${hash}, 'eip3009', '0xd', '10000', 'before', 'USDC', 6, '1', '1',
        1800000000, ${hash}, 'order-' || ${spread}, '{"transaction":"0x' || ${spread} || ${hex(56, "i")} || '"}', ${at}, ${at}
        FROM n WHERE i % 2 = 0`,
    `${numbers(calls)} INSERT INTO ${schema}finished_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at,
        finished_at, subscriber, claimed_at, head)
      SELECT i, CASE WHEN i % 2 = 0 THEN 'x402' ELSE 'webhook' END, CAST(i % 20 AS TEXT), '1', 'succeeded', 1, ${at}, ${at},
        'worker-1', ${at}, ${bytes(schema === "" ? head : head.replaceAll("char(", "chr("))} FROM n`,
    `${numbers(deadLetters)} INSERT INTO ${schema}job_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at,
        dead_at, dead_reason${schema === "" ? ", dead_group" : ""})
      SELECT ${calls} + i, 'webhook', CAST(i % 20 AS TEXT), '1', 'dead', 3, ${NOW}, ${NOW}, 'the database is down'
        ${schema === "" ? ", 'webhook 1 ' || (i % 20) || ' the database is down'" : ""} FROM n`,
    // SQLite never gives an ID twice that a row has had; Postgres draws IDs from a sequence.
    ...(schema === "" ? [] : [`SELECT setval('jobgate.call_ids', ${calls + deadLetters})`]),
  ];
}

async function measure(name: string, store: Store): Promise<object[]> {
  const indexer = () => new SearchIndexer({ index: store.of(SEARCH), store, logger });
  const startedAt = performance.now();
  const first = indexer();
  while (await first.step());
  const filledMs = performance.now() - startedAt;
  const spread = (i: number) => ((BigInt(i) * 2654435761n) % 4294967296n).toString(16).padStart(8, "0");
  const texts: Readonly<Record<string, (i: number) => string>> = {
    number: (i) => String(i),
    transaction: (i) => `0x${spread(2 * i)}`,
    "payment ID": (i) => `order-${spread(2 * i)}`,
    metadata: (i) => `delivery${spread(i)}`,
    "payer of 50 payments": (i) => `0x${(2 * (i % 500)).toString(16).padStart(40, "0")}`,
    "common beginning": () => "delivery",
    reason: () => "the database",
    nothing: (i) => `no such ${i}`,
  };
  const rows: object[] = [{ "": `${name}, filled in ${Math.round(filledMs)} ms` }];
  for (const [what, text] of Object.entries(texts)) {
    const times: number[] = [];
    for (let i = 1; i <= SEARCHES; i++) {
      const from = performance.now();
      await Promise.all([store.of(SEARCH).search(text(i)), store.listDeadLetterGroups(21, text(i))]);
      times.push(performance.now() - from);
    }
    rows.push({
      "": `${name}, ${what}`,
      "p50 ms": ms(percentile(times, 0.5)),
      "max ms": ms(Math.max(...times)),
    });
  }
  const cpu = { without: [] as number[], with: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    cpu.without.push(await accepts(store));
    const running = indexer();
    await running.start();
    cpu.with.push(await accepts(store));
    await running.stop();
  }
  const [without, withIndex] = [percentile(cpu.without, 0.5), percentile(cpu.with, 0.5)];
  rows.push({
    "": `${name}, CPU µs an accept`,
    without: Math.round(without),
    with: Math.round(withIndex),
    ratio: (withIndex / without).toFixed(2),
  });
  await store.close();
  return rows;
}

/** @returns microseconds of CPU for each accept, those of the store's threads included */
async function accepts(store: Store): Promise<number> {
  const end = performance.now() + ROUND_MS;
  const before = process.cpuUsage();
  let count = 0;
  const accept = async () => {
    while (performance.now() < end) {
      count++;
      const metadata = { "X-WEBHOOK-ORIGIN": "webhook" };
      const requestMetadata = [["X-HTTP-X-REF", `delivery${count}`]] as const;
      const job = { origin: "webhook", jobId: 1n, serviceId: 1n } as const;
      await store.accept({ ...job, body: Buffer.alloc(256), metadata, requestMetadata });
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, accept));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

const ms = (value: number) => Number(value.toFixed(1));
