import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import pLimit from "p-limit";
import { expect, onTestFinished, test } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { processEnded, spawnTethered, type TetheredProcess } from "../../src/node/tethered-process.ts";
import { createVenv, installPackages } from "../e2e/python.ts";
import { copySources, WORKSHOP } from "../e2e/workshop.ts";
import { freePort } from "../helpers/free-port.ts";
import { howMany } from "../helpers/how-many.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { until } from "../helpers/until.ts";

const JOBS = howMany(3_000, 10_000);
const CONCURRENCY = 8;
const WAIT_MS = 600_000;
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

/** Request of the job at an index to its app, for the first attempt. */
function bodyOf(index: number): string {
  const asks = [
    [50, "fail"],
    [100, "put off"],
    [1_000, "stall"],
    [1_500, "die"],
  ] as const;
  const [, asked = "work"] = asks.find(([every]) => index % every === every - 7) ?? [];
  return JSON.stringify({ do: asked, index });
}

interface AppCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
}

const folderOf = (name: string) => fileURLToPath(new URL(`push/${name}`, import.meta.url));

async function flaskApp(): Promise<AppCommand> {
  const cwd = `${WORKSHOP}/push-flask`;
  await copySources(folderOf("flask"), cwd);
  const command = await createVenv(cwd);
  await installPackages(command, ["-r", "requirements.txt"], cwd);
  return { command, args: ["app.py"], cwd };
}

/** Its packages are installed by test/full-setup.ts. */
const EXPRESS_APP: AppCommand = { command: process.execPath, args: ["app.js"], cwd: folderOf("express") };

/** Output of an app, over all its lives. */
interface Log {
  readonly deliveries: string[];
  readonly finished: number[];
  readonly bad: string[];
}

/** An app that starts again whenever it ends. */
class App {
  readonly #command: AppCommand;
  readonly #port: number;
  readonly #log: Log;
  #child: TetheredProcess | undefined;
  #stopping = false;
  deaths = 0;

  constructor(command: AppCommand, port: number, log: Log) {
    this.#command = command;
    this.#port = port;
    this.#log = log;
    this.#spawn();
  }

  kill(): void {
    this.#child?.kill("SIGKILL");
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.kill();
    if (this.#child) await processEnded(this.#child);
  }

  #spawn(): void {
    const env = { ...process.env, PORT: String(this.#port), PUSH_SECRET: SECRET };
    const child = spawnTethered({ ...this.#command, env });
    this.#child = child;
    child.stderr.resume();
    createInterface({ input: child.stdout }).on("line", (line) => {
      const [, what, callId, attempt] = /^(delivery|finished) (\d+) (\d+)$/.exec(line) ?? [];
      if (what === "delivery") this.#log.deliveries.push(`${callId} ${attempt}`);
      else if (what === "finished") this.#log.finished.push(Number(callId));
      else if (line.startsWith("bad ")) this.#log.bad.push(line);
    });
    child.once("exit", () => {
      this.deaths++;
      if (!this.#stopping) this.#spawn();
    });
  }
}

function configOf(ports: readonly number[]): string {
  const targets = ports.map(
    (port) => `[[push]]
url = "http://127.0.0.1:${port}/jobs"
concurrency = ${CONCURRENCY}
timeout_secs = 10
secret = "${SECRET}"
`,
  );
  return `service_id = 1
[runner]
bind_address = "127.0.0.1:0"
lease_secs = 20
max_attempts = 50
retry_base_secs = 0.1
retry_max_secs = 1
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 3
${targets.join("")}`;
}

async function post(jobgate: Jobgate, body: string): Promise<number> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${jobgate.webhooksUrl}/hooks/a`, { method: "POST", body, headers });
  expect(answer.status).toBe(202);
  return ((await answer.json()) as { call_id: number }).call_id;
}

test(`A Flask and an Express app that fail, stall and die, with jobgate killed, finish each of ${JOBS} pushed jobs`, async () => {
  const log: Log = { deliveries: [], finished: [], bad: [] };
  const commands = [await flaskApp(), EXPRESS_APP];
  const ports = await Promise.all(commands.map(() => freePort()));
  const apps = commands.map((command, i) => new App(command, ports[i] as number, log));
  onTestFinished(async () => {
    await Promise.all(apps.map((app) => app.stop()));
  });
  const folder = await testFolder();
  const start = async (): Promise<Jobgate> => {
    const started = await startJobgate({ config: configOf(ports), folder });
    onTestFinished(async () => void (await started.stop()));
    return started;
  };
  const accepted = new Set<number>();
  const limit = pLimit(32);
  const postJobs = (jobgate: Jobgate, from: number, to: number) =>
    Promise.all(
      Array.from({ length: to - from }, (_, i) =>
        limit(async () => void accepted.add(await post(jobgate, bodyOf(from + i)))),
      ),
    );
  const finishedOver = (count: number) => until(() => log.finished.length >= count, { waitMs: WAIT_MS });

  let jobgate = await start();
  await postJobs(jobgate, 0, JOBS / 2);
  await finishedOver(JOBS / 5);
  jobgate.kill("SIGKILL");
  await jobgate.exited;
  jobgate = await start();
  await postJobs(jobgate, JOBS / 2, JOBS);
  await finishedOver(JOBS / 2);
  for (const app of apps) app.kill();

  const operator = createOperatorClient({ address: { url: jobgate.operatorUrl } });
  const isEmpty = async () => {
    const { calls } = await operator.getTotals({});
    return calls !== undefined && calls.ready + calls.leased === 0n;
  };
  await until(isEmpty, { waitMs: WAIT_MS });

  await until(() => new Set(log.finished).size >= JOBS, { waitMs: WAIT_MS });

  expect(log.bad.slice(0, 3)).toEqual([]);
  expect((await operator.listDeadLetters({ pageSize: 10 })).deadLetters).toEqual([]);
  expect(accepted.size).toBe(JOBS);
  expect(new Set(log.finished)).toEqual(accepted);
  // Each delivery of a JobCall has its own attempt number, so that of a redelivery is above 1.
  expect(new Set(log.deliveries).size).toBe(log.deliveries.length);
  // Only answers that a death or a time-out cut off are given twice.
  const deaths = apps.reduce((sum, app) => sum + app.deaths, 0);
  const stalls = Array.from({ length: JOBS }, (_, i) => bodyOf(i)).filter((body) => body.includes("stall"));
  expect(log.finished.length - JOBS).toBeLessThanOrEqual(CONCURRENCY * (deaths + 2) + stalls.length);
}, 2_000_000);
