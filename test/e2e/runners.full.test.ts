import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import pLimit from "p-limit";
import { expect, onTestFinished, test, vi } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { openStoreForTest } from "../delivery/harness.ts";
import { freePort } from "../helpers/free-port.ts";
import { howMany } from "../helpers/how-many.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { until } from "../helpers/until.ts";
import { startWorkDelivery } from "../parts/work-stream/harness.ts";
import { installRunner, LIBRARIES, RUNNERS, type RunnerCommand } from "./example-runners.ts";
import { ROOT } from "./workshop.ts";

/** Longest runner in a README. */
const MAX_LINES = 10;
const JOBS = howMany(120, 1_000);
const IN_FLIGHT = 8;
const LEASE_SECS = 5;
const WAIT_MS = 300_000;
const TOKEN = "the-runners-token";

/** A job that takes longer than its lease. */
const LONG = `sleep:${LEASE_SECS * 1_500}`;

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
  readonly lines: string[];
}

function note(log: Log, line: string): void {
  log.lines.push(line);
  const [, callId, attempt] = /^delivery (\d+) (\d+)$/.exec(line) ?? [];
  if (callId !== undefined) log.deliveries.push({ callId: Number(callId), attempt: Number(attempt) });
}

function spawnRunner(
  { command, args, cwd }: RunnerCommand,
  { address, log, onEnd }: { address: string; log: Log; onEnd: typeof onTestFinished },
) {
  const env = {
    ...process.env,
    JOBGATE_RUNNER: address,
    JOBGATE_RUNNER_TOKEN: TOKEN,
  };
  const child = spawnTethered({ command, args, cwd, env });
  onEnd(async () => {
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

/** Returns a share of all jobs. */
const share = (of: number): number => Math.round(JOBS * of);

/** How long to wait for runners, and what they printed. */
function patience(log: Log) {
  return { waitMs: WAIT_MS, details: () => log.lines.slice(-30).join("\n") };
}

// At once, because they mostly wait.
test.concurrent.for(Object.entries(RUNNERS))(
  `Killed and restarted %s runners and jobgate finish each of ${JOBS} jobs; duplicates are redeliveries`,
  { timeout: 1_800_000 },
  async ([, prepare], { onTestFinished }) => {
    const runner = await prepare();
    const runnerPort = await freePort();
    const start = async (folder?: string) => {
      const jobgate = await startJobgate({ config: configOf(runnerPort), ...(folder && { folder }) });
      onTestFinished(async () => void (await jobgate.stop()));
      return { jobgate, operator: createOperatorClient({ address: { url: jobgate.operatorUrl } }) };
    };
    const log: Log = { deliveries: [], lines: [] };
    const spawn = () =>
      spawnRunner(runner, { address: `127.0.0.1:${runnerPort}`, log, onEnd: onTestFinished });
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
    /** JobCalls that are done or dead letters. */
    const finished = async (): Promise<number> => {
      const { calls } = await operator.getTotals({});
      return bodies.size - Number(calls === undefined ? 0n : calls.ready + calls.leased);
    };
    const finishedOver = (count: number) => until(async () => (await finished()) >= count, patience(log));

    // The first runner starts before jobgate.
    const first = spawn();
    let { jobgate, operator } = await start();
    const second = spawn();
    await postJobs(0, share(0.4));
    await finishedOver(share(0.08));
    first.kill("SIGKILL");
    await finishedOver(share(0.16));
    const third = spawn();
    await finishedOver(share(0.24));

    jobgate.kill("SIGKILL");
    await jobgate.exited;
    ({ jobgate, operator } = await start(jobgate.folder));
    await postJobs(share(0.4), share(0.8));
    await finishedOver(share(0.48));
    second.kill("SIGKILL");
    const fourth = spawn();
    await postJobs(share(0.8), JOBS);
    await finishedOver(share(0.7));
    // One of two stops gracefully, with work in progress.
    third.kill("SIGTERM");
    await processEnded(third);
    expect(third.exitCode).toBe(0);
    expect(bodies.size).toBe(JOBS);
    // From now on nothing is killed, so work longer than its lease is delivered once.
    const long = await post(jobgate, LONG);
    bodies.set(long, LONG);
    await finishedOver(bodies.size);
    await until(
      () => new Set(log.deliveries.map(({ callId }) => callId)).size === bodies.size,
      patience(log),
    );
    const attempts = new Map<number, number[]>();
    for (const { callId, attempt } of log.deliveries)
      attempts.set(callId, [...(attempts.get(callId) ?? []), attempt]);
    expect([...attempts.keys()].sort((a, b) => a - b)).toEqual([...bodies.keys()].sort((a, b) => a - b));
    let repeated = 0;
    for (const [callId, body] of bodies) {
      const of = attempts.get(callId) as number[];
      // Each delivery of a JobCall has its own attempt number.
      expect(new Set(of).size).toBe(of.length);
      const needed = body.startsWith("retry") && of.includes(1) ? 2 : 1;
      expect(of.length).toBeGreaterThanOrEqual(needed);
      repeated += of.length - needed;
    }
    // Processes were killed three times, each time with at most these in progress on two runners.
    expect(repeated).toBeLessThanOrEqual(4 * IN_FLIGHT);

    const { deadLetters } = await operator.listDeadLetters({ pageSize: 500 });
    const failing = [...bodies].filter(([, body]) => body.startsWith("fail")).map(([callId]) => callId);
    expect(deadLetters.map(({ callId }) => Number(callId)).sort((a, b) => a - b)).toEqual(
      failing.sort((a, b) => a - b),
    );
    for (const { reason } of deadLetters) expect(reason).toContain("asked to fail");

    expect(attempts.get(long)).toEqual([1]);

    fourth.kill("SIGTERM");
    await processEnded(fourth);
    expect(fourth.exitCode).toBe(0);
  },
);

test.for(
  Object.entries(RUNNERS).flatMap(([language, prepare]) =>
    [3_600_000, -3_600_000].map((aheadMs) => ({ language, prepare, aheadMs })),
  ),
)(
  "With the gateway's clock $aheadMs ms ahead of the $language runner's, a job longer than its lease runs once",
  async ({ prepare, aheadMs }) => {
    const runner = await prepare();
    const store = await openStoreForTest({ clock: () => Date.now() + aheadMs });
    const { address, accept } = await startWorkDelivery({ store, tokens: [TOKEN], leaseMs: 2_000 });
    const acks = vi.spyOn(store, "ack");
    const callId = await accept({ body: Buffer.from("sleep:5000") });
    const log: Log = { deliveries: [], lines: [] };
    spawnRunner(runner, { address, log, onEnd: onTestFinished });
    await until(() => acks.mock.calls.length > 0, patience(log));
    expect(acks.mock.calls.map(([lease]) => lease.callId)).toEqual([callId]);
    expect(log.deliveries).toEqual([{ callId, attempt: 1 }]);
  },
);

test.for(Object.entries(LIBRARIES))(
  "The %s runner in its README has at most ten lines, is the example, and works in any folder",
  async ([language, { readme, fence, source }]) => {
    const documented = new RegExp(`\`\`\`${fence}\\n([^]*?)\`\`\``).exec(
      await readFile(join(ROOT, readme), "utf8"),
    )?.[1];
    expect(await readFile(join(ROOT, "examples", `runner-${language}`, source), "utf8")).toBe(documented);
    expect(documented?.trimEnd().split("\n").length).toBeLessThanOrEqual(MAX_LINES);

    const runner = await installRunner(language, await testFolder());
    const { address, store, accept } = await startWorkDelivery({ tokens: [TOKEN] });
    const acks = vi.spyOn(store, "ack");
    const callId = await accept({ body: Buffer.from("hello") });
    const log: Log = { deliveries: [], lines: [] };
    const child = spawnRunner(runner, { address, log, onEnd: onTestFinished });
    await until(() => acks.mock.calls.length > 0, patience(log));
    const [lease, result] = acks.mock.calls[0] ?? [];
    expect(lease?.callId).toBe(callId);
    expect(Buffer.from(result?.body ?? []).toString()).toBe("HELLO");
    child.kill("SIGTERM");
    await processEnded(child);
    expect(child.exitCode).toBe(0);
  },
);
