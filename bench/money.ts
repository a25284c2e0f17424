import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { encodeJobCall } from "../src/delivery/job-call-codec.ts";
import { BOOKS } from "../src/parts/books/store/module.ts";
import { openPostgresStore } from "../src/parts/postgres/postgres-store.ts";
import { openDriver } from "../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../src/store/store.ts";
import { startPostgres } from "../test/helpers/postgres.ts";
import { percentile } from "./load.ts";

export const MOVEMENTS = 1_000_000;
const DAYS = 30;
const JOBS = 100;
const TOKENS = 2;
/** Rows of one day, job and token. */
export const SLOTS = { sqlite: 1, postgres: 4 };
const ROUNDS = 30;
const DAY_MS = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY_MS);

const options = { maxPending: 10_000_000, encodeJobCall, logger: pino({ level: "error" }) };

/** Measures the sums of the books in both stores. */
export async function benchMoney(): Promise<void> {
  console.log(
    `\nSums of ${MOVEMENTS} movements in ${DAYS} days, of ${JOBS} jobs and ${TOKENS} tokens, in milliseconds`,
  );
  const folder = await mkdtemp(join(tmpdir(), "jobgate-money-"));
  try {
    const path = join(folder, "jobgate.db");
    await (await openSqliteStore({ ...options, path })).close();
    const database = openDriver(path);
    const numbers = `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${MOVEMENTS - 1})`;
    database.exec(`BEGIN; ${movementInserts(numbers, "", SLOTS.sqlite).join(";")}; COMMIT`);
    database.close();
    console.table(await measure("SQLite", await openSqliteStore({ ...options, path })));
  } finally {
    await rm(folder, { recursive: true });
  }
  const postgres = await startPostgres();
  try {
    const url = await postgres.createDatabase();
    await (await openPostgresStore({ ...options, url })).close();
    const numbers = `WITH n (i) AS (SELECT generate_series(0, ${MOVEMENTS - 1}))`;
    for (const insert of movementInserts(numbers, "jobgate.", SLOTS.postgres))
      await postgres.query(url, insert);
    await postgres.query(url, "VACUUM ANALYZE");
    console.table(await measure("Postgres", await openPostgresStore({ ...options, url })));
  } finally {
    await postgres.stop();
  }
}

/** SQL that writes movements and their sums, as the store would have written them. */
export function movementInserts(numbers: string, schema: string, slots: number): string[] {
  const day = `${TODAY} - i % ${DAYS}`;
  const job = `(i / ${DAYS}) % ${JOBS}`;
  const token = `(i / ${DAYS * JOBS}) % ${TOKENS}`;
  return [
    `${numbers} INSERT INTO ${schema}movements (at, kind, call_id, service_id, job_index, network, asset, symbol, decimals, amount, price)
       SELECT CAST(${day} AS bigint) * ${DAY_MS}, 'payment', i, '1', ${job}, 'eip155:1', '0x' || ${token}, 'USDC', 6, '10', '1' FROM n`,
    `${numbers} INSERT INTO ${schema}movement_days
       SELECT ${day}, '1', ${job}, 'eip155:1', '0x' || ${token}, 'USDC', 6, (i / ${DAYS * JOBS * TOKENS}) % ${slots}, CAST(count(*) AS text)${cast(schema)},
              CAST(count(*) * 10 AS text)${cast(schema)}, ${Array(6).fill("'0'").join()} FROM n GROUP BY 1, 3, 5, 8`,
  ].map((sql) => (schema === "" ? sql : sql.replaceAll("'0'", "0")));
}

const cast = (schema: string) => (schema === "" ? "" : "::numeric");

async function measure(name: string, store: Store): Promise<object[]> {
  const rows: object[] = [];
  for (const by of ["token", "network", "job", "day"] as const) {
    const tookMs: number[] = [];
    let payments = 0n;
    for (let round = 0; round < ROUNDS; round++) {
      const start = performance.now();
      const sums = await store.of(BOOKS).sumMovements({ from: TODAY - DAYS + 1, to: TODAY + 1, by });
      tookMs.push(performance.now() - start);
      payments = sums.reduce((sum, one) => sum + one.payments, 0n);
    }
    if (payments !== BigInt(MOVEMENTS)) throw new Error(`the sums have ${payments} payments`);
    rows.push({ "": `${name} by ${by}`, p50: percentile(tookMs, 0.5), max: percentile(tookMs, 1) });
  }
  await store.close();
  return rows;
}
