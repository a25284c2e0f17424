import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import pLimit from "p-limit";
import { expect, onTestFinished, test } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { freePort } from "../helpers/free-port.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { processEnded, spawnTethered } from "../helpers/tethered-process.ts";
import { RUNNERS, type RunnerCommand } from "./example-runners.ts";

const JOBS = 1_000;
const IN_FLIGHT = 8;
const LEASE_SECS = 2;
const WAIT_MS = 60_000;
const TOKEN = "the-runners-token";

/** A job that takes longer than its lease. */
const LONG = `sleep:${LEASE_SECS * 2_000}`;

/** Work of the job at an index. */
function bodyOf(index: number): string {
  if (index % 50 === 7) return `fail ${index}`;
  if (index % 50 === 17) return `retry ${index}`;
  if (index % 20 === 0) return "sleep:300";
  if (index % 250 === 99) return LONG;
  return `job ${index}`;
}

/** One line that a runner printed. */
interface Delivery {
  readonly callId: number;
  readonly attempt: number;
}

/** Output of all runners of a test. */
interface Log {
  readonly deliveries: Delivery[];
  /** Call ids whose Ack or Nack was answered "done". */
  readonly finished: number[];
  readonly lines: string[];
}

/** The examples say "finished ID"; run-each logs JSON. */
function note(log: Log, line: string): void {
  log.lines.push(line);
  const [, callId, attempt] = /^delivery (\d+) (\d+)$/.exec(line) ?? [];
  if (callId !== undefined) log.deliveries.push({ callId: Number(callId), attempt: Number(attempt) });
  const finished = /^finished (\d+)$|"callId":"(\d+)".*"msg":"finished"/.exec(line);
  if (finished !== null) log.finished.push(Number(finished[1] ?? finished[2]));
}

function spawnRunner({ command, args, cwd }: RunnerCommand, address: string, log: Log) {
  const env = {
    ...process.env,
    JOBGATE_RUNNER: address,
    RUNNER_TOKEN: TOKEN,
    JOBGATE_RUNNER_TOKEN: TOKEN,
  };
  const child = spawnTethered({ command, args, cwd, env });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await processEnded(child);
  });
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on("line", (line) => note(log, line));
  return child;
}

function configOf(runnerPort: number): string {
  return `service_id = 1
[runner]
bind_address = "127.0.0.1:${runnerPort}"
token = "${TOKEN}"
lease_secs = ${LEASE_SECS}
max_attempts = 50
retry_base_secs = 0.2
retry_max_secs = 1
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 3
`;
}

/** @returns the call id */
async function post(jobgate: Jobgate, body: string): Promise<number> {
  const answer = await fetch(`${jobgate.webhooksUrl}/hooks/a`, { method: "POST", body });
  expect(answer.status).toBe(202);
  return ((await answer.json()) as { call_id: number }).call_id;
}

async function until(what: string, holds: () => boolean | Promise<boolean>, log: Log): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  while (!(await holds())) {
    if (performance.now() > deadline)
      throw new Error(`Not so after ${WAIT_MS} ms: ${what}\n${log.lines.slice(-30).join("\n")}`);
    await sleep(50);
  }
}

test.each(Object.keys(RUNNERS))(
  "Killed and restarted %s runners and jobgate finish each of 1,000 jobs once; duplicates are redeliveries",
  async (language) => {
    const runner = await (RUNNERS[language] as () => Promise<RunnerCommand>)();
    const folder = await mkdtemp(join(tmpdir(), "jobgate-runners-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const runnerPort = await freePort();
    const start = async (): Promise<Jobgate> => {
      const started = await startJobgate({ config: configOf(runnerPort), folder });
      onTestFinished(async () => void (await started.stop()));
      return started;
    };
    const log: Log = { deliveries: [], finished: [], lines: [] };
    const spawn = () => spawnRunner(runner, `127.0.0.1:${runnerPort}`, log);
    const bodies = new Map<number, string>();
    const limit = pLimit(16);
    const postJobs = (from: number, to: number) =>
      Promise.all(
        Array.from({ length: to - from }, (_, offset) =>
          limit(async () => {
            const body = bodyOf(from + offset);
            bodies.set(await post(jobgate, body), body);
          }),
        ),
      );
    const finishedOver = (count: number) =>
      until(`${count} jobs are finished`, () => log.finished.length >= count, log);

    // The first runner starts before jobgate.
    const first = spawn();
    let jobgate = await start();
    const second = spawn();
    await postJobs(0, 400);
    await finishedOver(80);
    first.kill("SIGKILL");
    await finishedOver(160);
    const third = spawn();
    await finishedOver(240);

    jobgate.kill("SIGKILL");
    await jobgate.exited;
    jobgate = await start();
    await postJobs(400, 800);
    await finishedOver(480);
    second.kill("SIGKILL");
    const fourth = spawn();
    await postJobs(800, JOBS);
    await finishedOver(700);
    // One of two stops gracefully, with work in progress.
    third.kill("SIGTERM");
    await processEnded(third);
    expect(third.exitCode).toBe(0);

    const operator = createOperatorClient({ address: { url: jobgate.operatorUrl } });
    const counts = async () => (await operator.getTotals({})).calls;
    await until(
      "the queue is empty",
      async () => {
        const calls = await counts();
        return calls !== undefined && calls.ready + calls.leased === 0n;
      },
      log,
    );

    expect(bodies.size).toBe(JOBS);
    const delivered = new Set(log.deliveries.map(({ callId }) => callId));
    expect([...delivered].sort((a, b) => a - b)).toEqual([...bodies.keys()].sort((a, b) => a - b));
    // Each delivery of a JobCall has its own attempt number.
    const told = log.deliveries.map(({ callId, attempt }) => `${callId} ${attempt}`);
    expect(new Set(told).size).toBe(told.length);
    // Asked to retry, it was finished twice: with a Nack, and with an Ack. Only the killed took words with them.
    const finishes = new Map<number, number>();
    for (const callId of log.finished) finishes.set(callId, (finishes.get(callId) ?? 0) + 1);
    let unheard = 0;
    for (const [callId, body] of bodies) {
      const expected = body.startsWith("retry") ? 2 : 1;
      const heard = finishes.get(callId) ?? 0;
      expect(heard).toBeLessThanOrEqual(expected);
      unheard += expected - heard;
    }
    // Processes were killed three times, each time with at most these in progress on two runners.
    expect(unheard).toBeLessThanOrEqual(4 * IN_FLIGHT);

    const { deadLetters } = await operator.listDeadLetters({ pageSize: 500 });
    const failing = [...bodies].filter(([, body]) => body.startsWith("fail")).map(([callId]) => callId);
    expect(deadLetters.map(({ callId }) => Number(callId)).sort((a, b) => a - b)).toEqual(
      failing.sort((a, b) => a - b),
    );
    for (const { reason } of deadLetters) expect(reason).toContain("asked to fail");

    // Without kills, work longer than its lease is delivered once.
    const deliveredBefore = log.deliveries.length;
    const long = await post(jobgate, LONG);
    await until("the long job is finished", () => log.finished.includes(long), log);
    expect(log.deliveries.slice(deliveredBefore)).toEqual([{ callId: long, attempt: 1 }]);

    fourth.kill("SIGTERM");
    await processEnded(fourth);
    expect(fourth.exitCode).toBe(0);
  },
);
