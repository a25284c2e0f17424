import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { bundledScript } from "../helpers/bundle.ts";
import { freePort } from "../helpers/free-port.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { until } from "../helpers/until.ts";

const CALLBACKS = Number(process.env.JOBGATE_CALLBACK_CRASH_COUNT ?? 500);
/** Kills of each, the sender and the receiver. On Postgres the next sender waits 30 s for the lease of the killed one. */
const KILLS = { SQLite: Math.max(8, Math.round(CALLBACKS / 100)), Postgres: Math.ceil(CALLBACKS / 1_000) };
/** Webhooks that wait for their answers at a time. */
const AT_ONCE = 32;
/** Each kill comes at a random moment, within this time. */
const KILLED_WITHIN_MS = 30;
const SECRET = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
/** Bounds the whole, on a machine that does other things too. */
const WAIT_MS = 1_500_000;

interface Row {
  readonly event: string;
  readonly call_id: number;
  /** Milliseconds as text, as Postgres returns them. */
  readonly at: string;
  readonly state: string;
}

const postgres = startBeforeAll(startPostgres);

test.each(["SQLite", "Postgres"] as const)(
  `None of ${CALLBACKS} callbacks is lost while sender and receiver are killed, and a callback that comes twice has one ID (%s)`,
  async (kind) => {
    const folder = await testFolder();
    const databaseUrl = kind === "SQLite" ? "sqlite:jobgate.db" : await postgres.createDatabase();
    const logPath = join(folder, "received.log");
    await writeFile(logPath, "");
    const port = await freePort();
    const script = fileURLToPath(new URL("./callback-receiver.ts", import.meta.url));
    const startReceiver = async () => {
      const args = [bundledScript(`import "${script}";`), String(port), logPath];
      const child = spawnTethered({ command: process.execPath, args });
      await new Promise<void>((resolve) =>
        createInterface({ input: child.stdout }).once("line", () => resolve()),
      );
      return child;
    };
    const runner = await listenHttp({ handler: (_request, response) => void response.writeHead(204).end() });
    onTestFinished(() => runner.stop());
    const config = `service_id = 1
[store]
url = "${databaseUrl}"
[runner]
bind_address = "127.0.0.1:0"
lease_secs = 5
max_attempts = 1000
[operator]
bind_address = "127.0.0.1:0"
[[push]]
url = "${runner.url}/"
concurrency = 64
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 3
[[callbacks]]
url = "http://127.0.0.1:${port}/hook"
events = ["call.finished"]
secret = "${SECRET}"
`;
    let jobgate: Jobgate = await startJobgate({ config, folder });
    let receiver = await startReceiver();
    onTestFinished(async () => {
      receiver.kill("SIGKILL");
      await jobgate.stop();
    });

    const receivedLines = async () => (await readFile(logPath, "utf8")).split("\n").slice(0, -1);
    async function select<Row extends object>(columns: string, table: string): Promise<Row[]> {
      const sql = `SELECT ${columns} FROM`;
      if (kind === "Postgres") return postgres.query(databaseUrl, `${sql} jobgate.${table}`);
      const store = openDriver(join(folder, "jobgate.db"));
      try {
        return store.prepare<Row>(`${sql} ${table}`).all([]);
      } finally {
        store.close();
      }
    }
    const readRows = () =>
      select<Row>("event, CAST(call_id AS INTEGER) AS call_id, CAST(at AS TEXT) AS at, state", "callbacks");
    const patience = { waitMs: WAIT_MS, details: () => jobgate.logs.slice(-20).join("\n") };

    let left = CALLBACKS;
    async function post(): Promise<void> {
      while (left > 0) {
        left -= 1;
        // An unanswered one may have been accepted: then it makes one callback more.
        const isAccepted = () =>
          fetch(`${jobgate.webhooksUrl}/hooks/a`, { method: "POST", body: `${left}` }).then(
            ({ status }) => status === 202,
            () => false,
          );
        await until(isAccepted, patience);
      }
    }
    async function kill(): Promise<void> {
      for (let n = 1; n <= KILLS[kind]; n++) {
        const share = (CALLBACKS * n) / (KILLS[kind] + 1);
        await until(async () => (await receivedLines()).length >= share, patience);
        await sleep(Math.random() * KILLED_WITHIN_MS);
        receiver.kill("SIGKILL");
        await processEnded(receiver);
        receiver = await startReceiver();
        await sleep(Math.random() * KILLED_WITHIN_MS);
        jobgate.kill("SIGKILL");
        await jobgate.exited;
        jobgate = await startJobgate({ config, folder });
      }
    }
    await Promise.all([...Array.from({ length: AT_ONCE }, post), kill()]);
    const areAllSent = async () => {
      const rows = await readRows();
      return rows.length >= CALLBACKS && rows.every(({ state }) => state === "sent");
    };
    await until(areAllSent, patience);

    const finished = await select<{ call_id: number }>(
      "CAST(call_id AS INTEGER) AS call_id",
      "finished_calls",
    );
    const rows = await readRows();
    const calls = (list: readonly { call_id: number }[]) =>
      list.map(({ call_id }) => call_id).toSorted((a, b) => a - b);
    expect(calls(rows)).toEqual(calls(finished));
    const bodies = new Map<string, Set<string>>();
    const lines = await receivedLines();
    for (const line of lines) {
      const [id = "", ...body] = line.split(" ");
      bodies.set(id, (bodies.get(id) ?? new Set()).add(body.join(" ")));
    }
    const idOf = ({ event, call_id, at }: Row) => `${event.replace(".", "_")}_${call_id}_${at}`;
    expect([...bodies.keys()].toSorted()).toEqual(rows.map(idOf).toSorted());
    expect([...bodies.values()].filter(({ size }) => size > 1)).toEqual([]);
    console.log(
      `${rows.length} callbacks, ${lines.length - rows.length} came twice, ${2 * KILLS[kind]} kills`,
    );
  },
  WAIT_MS,
);
