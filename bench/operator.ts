import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import {
  createOperatorClient,
  durationFromMs,
  type OperatorClient,
  timestampFromMs,
} from "../src/commands/operator-client.ts";
import { encodeJobCall } from "../src/delivery/job-call-codec.ts";
import { CallState, MovementGroup, PaymentState } from "../src/gen/jobgate/v1/operator_pb.ts";
import { openPostgresStore } from "../src/parts/postgres/postgres-store.ts";
import { openDriver } from "../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import { startPostgres } from "../test/helpers/postgres.ts";
import { startTree } from "./gateway.ts";
import { percentile } from "./load.ts";
import { movementInserts, SLOTS } from "./money.ts";
import { type FillDialect, inserts, POSTGRES_FILL, SQLITE_FILL } from "./search.ts";
import type { Tree } from "./trees.ts";

/** Finished calls; every second is paid for. */
const CALLS = 1_000_000;
const DEAD_LETTERS = 1_000;
const WAITING = 10_000;
const REFUNDS = 10_000;
const CALLBACKS = 100_000;
/** The most that are kept. */
const REFUSED = 100_000;
const ROUNDS = 40;
const DAY_MS = 86_400_000;
const NOW = Date.now();

const options = { maxPending: 10_000_000, encodeJobCall, logger: pino({ level: "error" }) };

/**
 * Measures every method of the operator's API that the page calls, over HTTP, in both stores.
 * @param only beginning of the names of the methods that are measured
 */
export async function benchOperator(trees: readonly Tree[], only: string): Promise<void> {
  console.log(`\nMethods of the operator's API with ${CALLS} calls, in milliseconds`);
  const folder = await mkdtemp(join(tmpdir(), "jobgate-operator-"));
  try {
    const path = join(folder, "bench.db");
    await (await openSqliteStore({ ...options, path })).close();
    const database = openDriver(path);
    database.exec("BEGIN");
    for (const sql of fills(SQLITE_FILL, SLOTS.sqlite)) database.exec(sql);
    database.exec("COMMIT");
    database.close();
    for (const tree of trees) console.table(await measure(`${tree.name}, SQLite`, tree, { folder }, only));
  } finally {
    await rm(folder, { recursive: true });
  }
  const postgres = await startPostgres();
  try {
    const store = await postgres.createDatabase();
    await (await openPostgresStore({ ...options, url: store })).close();
    for (const sql of fills(POSTGRES_FILL, SLOTS.postgres)) await postgres.query(store, sql);
    await postgres.query(store, "VACUUM ANALYZE");
    for (const tree of trees) console.table(await measure(`${tree.name}, Postgres`, tree, { store }, only));
  } finally {
    await postgres.stop();
  }
}

/** SQL that fills a store as a year of sales would. */
function fills(dialect: FillDialect, slots: number): string[] {
  const { numbers, schema, hex, bytes } = dialect;
  const token = "'eip155:8453', '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', 'USDC'";
  const at = `${NOW - 3_600_000} + i`;
  const quoted = (n: number) => (schema === "" ? `'${n}'` : n);
  const payer = `'0x' || ${hex(40, "i % 1000")}`;
  const more = `'{"message":"The payment was refused.","reason":"insufficient_funds","network":"eip155:8453","amount":"1"}'`;
  return [
    ...inserts(dialect, CALLS, DEAD_LETTERS),
    `${numbers(CALLS)} INSERT INTO ${schema}results (call_id, state, attempt, enqueued_at, finished_at, content_type, body)
      SELECT i, 'succeeded', 1, ${at}, ${at}, 'text/plain', ${bytes("'a result of some bytes'")} FROM n WHERE i % 2 = 0`,
    `${numbers(WAITING)} INSERT INTO ${schema}job_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at)
      SELECT ${CALLS + DEAD_LETTERS} + i, 'webhook', CAST(i % 20 AS TEXT), '1', 'ready', 0, ${at} FROM n`,
    ...(schema === "" ? [] : [`SELECT setval('jobgate.call_ids', ${CALLS + DEAD_LETTERS + WAITING})`]),
    `${numbers(REFUNDS)} INSERT INTO ${schema}refunds (call_id, state, is_approved, is_of_failed, network, asset, symbol, payer, amount, created_at, updated_at)
      SELECT 2 * i, CASE WHEN i % 2 = 0 THEN 'owed' ELSE 'refunded' END, 0, 1, ${token}, ${payer}, '10000', ${at}, ${at} FROM n`,
    `${numbers(CALLBACKS)} INSERT INTO ${schema}callbacks (event, call_id, at, data, url, host, is_buyers, state, due_at, give_up_at, ended_at)
      SELECT 'call.finished', i, ${at}, '{}', 'https://ops.example.com/hook', 'ops.example.com', 0, 'sent', ${at}, ${at}, ${at} FROM n`,
    `${numbers(REFUSED)} INSERT INTO ${schema}refused_payments (at, request_id, service_id, job_index, payer, code, more, cause)
      SELECT ${at}, 'r' || i, '1', i % 20, ${payer}, 'payment_invalid', ${more}, 'digest of 22 letters ' || i % 20 FROM n`,
    ...["settled", "done"].map(
      (name) => `INSERT INTO ${schema}ended (name, slot, n) VALUES ('${name}', 0, ${quoted(CALLS / 2)})`,
    ),
    `${numbers(1_000)} INSERT INTO ${schema}payment_alerts (kind, at, call_id, service_id, job_index, network, asset, symbol, payer, amount, reason)
      SELECT 'charge_lost', ${at}, i, '1', i % 20, ${token}, ${payer}, '1', 'cancelled' FROM n`,
    ...movementInserts(numbers(CALLS), schema, slots),
    // As the index is once the process has filled it, which takes minutes.
    ...[
      ["metadata", `'delivery' || ${SPREAD(hex)}`, "i > 0"],
      ["transaction", `'0x' || ${SPREAD(hex)} || ${hex(56, "i")}`, "i % 2 = 0"],
      ["payment_id", `'order-' || ${SPREAD(hex)}`, "i % 2 = 0"],
    ].map(
      ([kind, term, where]) => `${numbers(CALLS)} INSERT INTO ${schema}search_terms (kind, term, entry)
        SELECT '${kind}', ${term}, i FROM n WHERE ${where}`,
    ),
    ...["calls", "settled", "refused"].map(
      (source) =>
        `INSERT INTO ${schema}search_positions (source, at, entry) VALUES ('${source}', ${NOW}, ${2 * CALLS})`,
    ),
  ];
}

/** SQL of the digits by which the calls differ. */
const SPREAD = (hex: FillDialect["hex"]) => hex(8, "CAST(i AS bigint) * 2654435761 % 4294967296");

type Ask = (client: OperatorClient, i: number) => Promise<unknown>;

const since = (days: number) => timestampFromMs(NOW - days * DAY_MS);

/** Questions of the page, with the filters that its lists have. `i` makes each another one. */
const QUESTIONS: Readonly<Record<string, Ask>> = {
  GetInfo: (client) => client.getInfo({}),
  GetTotals: (client) => client.getTotals({}),
  GetRevenue: (client) => client.getRevenue({ since: since(7), bucket: durationFromMs(3_600_000) }),
  GetActivity: (client) => client.getActivity({}),
  ListCalls: (client) => client.listCalls({}),
  "ListCalls, older": (client, i) => client.listCalls({ pageToken: String(1 + i * 20_000) }),
  "ListCalls, done and paid": (client) => client.listCalls({ state: CallState.DONE, origin: "x402" }),
  "ListCalls, waiting": (client) => client.listCalls({ state: CallState.READY }),
  "ListCalls of a job": (client, i) => client.listCalls({ serviceId: 1n, jobId: BigInt(i % 20) }),
  "ListCalls of a payer": (client, i) =>
    client.listCalls({ payer: `0x${(2 * i).toString(16).padStart(40, "0")}` }),
  "ListCalls, text": (client, i) => client.listCalls({ text: `no such ${i}` }),
  "ListCalls of 30 days": (client) => client.listCalls({ since: since(30) }),
  GetCall: (client, i) => client.getCall({ callId: BigInt(2 + 2 * i) }),
  "Search, transaction": (client, i) =>
    client.search({
      text: `0x${((BigInt(2 * i + 2) * 2654435761n) % 4294967296n).toString(16).padStart(8, "0")}`,
    }),
  "Search, common beginning": (client) => client.search({ text: "delivery" }),
  ListPayments: (client) => client.listPayments({}),
  "ListPayments, unresolved": (client) => client.listPayments({ state: PaymentState.UNRESOLVED }),
  "ListPayments, undecided": (client) =>
    client.listPayments({ state: PaymentState.INTENT, until: timestampFromMs(NOW) }),
  "ListPayments of a job": (client, i) => client.listPayments({ serviceId: 1n, jobIndex: i % 20 }),
  GetPayment: (client, i) => client.getPayment({ callId: BigInt(2 + 2 * i) }),
  ListPaymentAlerts: (client) => client.listPaymentAlerts({}),
  ListRefusedPayments: (client) => client.listRefusedPayments({}),
  "ListRefusedPayments of a request": (client, i) => client.listRefusedPayments({ requestId: `r${i}` }),
  "ListRefusedPayments of a job and payer": (client) =>
    client.listRefusedPayments({ serviceId: 1n, jobIndex: 3, payer: `0x${"0".repeat(40)}` }),
  CountRefusedPayments: (client) => client.countRefusedPayments({}),
  ListRefunds: (client) => client.listRefunds({}),
  ListCallbacks: (client) => client.listCallbacks({}),
  ListChannels: (client) => client.listChannels({}),
  ListDeadLetterGroups: (client) => client.listDeadLetterGroups({}),
  ListDeadLetters: (client) => client.listDeadLetters({}),
  GetDeadLetter: (client, i) =>
    client.getDeadLetter({ callId: BigInt(CALLS + 1 + i) }).catch(() => undefined),
  ListPausables: (client) => client.listPausables({}),
  ListMovements: (client) => client.listMovements({ since: since(1), pageSize: 500 }),
  "SumMovements by token": (client) => client.sumMovements({ by: MovementGroup.TOKEN }),
  "SumMovements by job": (client) => client.sumMovements({ by: MovementGroup.JOB }),
  "SumMovements by day": (client) => client.sumMovements({ by: MovementGroup.DAY }),
  ListHoldings: (client) => client.listHoldings({}),
  ListRates: (client) => client.listRates({}),
  ListRunners: (client) => client.listRunners({}),
  ListUntakenJobs: (client) => client.listUntakenJobs({}),
  ListEndpoints: (client) => client.listEndpoints({}),
  ListNetworks: (client) => client.listNetworks({ networks: ["eip155:8453"] }),
  GetConfiguration: (client) => client.getConfiguration({}),
};

async function measure(
  name: string,
  tree: Tree,
  place: { readonly folder: string } | { readonly store: string },
  only: string,
): Promise<object[]> {
  const { jobgate } = await startTree(tree, place);
  try {
    const client = createOperatorClient({ address: { url: jobgate.operatorUrl } });
    const rows: object[] = [];
    for (const [method, ask] of Object.entries(QUESTIONS).filter(([name]) => name.startsWith(only))) {
      const times: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const from = performance.now();
        await ask(client, round);
        times.push(performance.now() - from);
      }
      const [p50, slowest] = [percentile(times, 0.5), Math.max(...times)].map((ms) => Number(ms.toFixed(1)));
      rows.push({ "": `${name}, ${method}`, p50, slowest, first: Number(times[0]?.toFixed(1)) });
    }
    return rows;
  } finally {
    await jobgate.stop();
  }
}
