import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CHANNELS } from "../src/parts/channels/store/module.ts";
import { channelSums } from "../src/parts/channels/store/totals.ts";
import { openDriver } from "../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";

const SIZES = [1_000, 1_000_000];
const OPEN_CALLS = 30_000;
/** Channels that wait to be claimed, of few channels and of many. */
const DUE = 1_000;
const ROUNDS = 20;
const NETWORK = "eip155:84532";

/** Measures what jobgate asks its store about channels from time to time, with few channels and with many. */
export async function benchChannelStore(): Promise<void> {
  const rows: object[] = [];
  for (const channels of SIZES) rows.push(await measure(channels));
  console.log(`\nThe store with channels, of which calls are open, in milliseconds`);
  console.table(rows);
}

async function measure(channels: number): Promise<object> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-bench-"));
  const path = join(folder, "bench.db");
  const open = () => openSqliteStore({ path, maxPending: 1_000_000, encodeJobCall: ({ body }) => body });
  try {
    await (await open()).close();
    fill(path, channels);
    const store = await open();
    const ledger = store.of(CHANNELS);
    const of = { limit: 100 };
    const row = {
      "": `${channels} channels, ${OPEN_CALLS} open calls`,
      totals: await median(() => store.totals()),
      "charges to count": await median(() => ledger.listUncounted(of)),
      "channels to claim": await median(() =>
        ledger.listDueChannels(NETWORK, { isUrgent: false, after: undefined, limit: 100 }),
      ),
      "one channel": await median(() => ledger.findChannel("0x7")),
    };
    const [sum] = channelSums(await store.totals());
    if (sum?.channels[0]?.[1] !== channels) throw new Error("the sums are not those of the channels");
    await store.close();
    return row;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Writes channels and calls that are open as the store would have written them. */
function fill(path: string, channels: number): void {
  const database = openDriver(path);
  const numbers = (count: number) =>
    `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})`;
  const config = JSON.stringify({ payer: `0x${"a".repeat(40)}`, salt: `0x${"b".repeat(64)}` });
  database.exec(`BEGIN;
    ${numbers(channels)} INSERT INTO channels
      SELECT printf('0x%x', n), '${NETWORK}', '0xa', 'USDC', 6, '${config}', 'open', NULL, '10', n, '0', '10', '0x1', '100', 0,
             '10', '5', '0', '0', '0', 0, iif(n % (${channels} / ${DUE}) = 0, n, NULL), 0, NULL, NULL, n, n FROM numbers;
    INSERT INTO channel_sums SELECT '${NETWORK}', '0xa', 'USDC', '${channels}', '0', '0', '0',
      ${channels} * 100, ${channels} * 10, ${channels} * 5, '0', '0';
    ${numbers(OPEN_CALLS)} INSERT INTO channel_charges
      SELECT n, printf('0x%x', n % ${channels} + 1), '10', '10', '10', '0', 'refund', 0, 'open', 0, n FROM numbers;
    COMMIT;`);
  database.close();
}

async function median(ask: () => Promise<unknown>): Promise<string> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const startedAt = performance.now();
    await ask();
    times.push(performance.now() - startedAt);
  }
  return (times.sort((one, other) => one - other)[ROUNDS / 2] ?? Number.NaN).toFixed(2);
}
