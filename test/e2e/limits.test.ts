import { expect, test } from "vitest";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";

const RATE = { calls: 5, perMs: 1_000 };

const jobgate = startBeforeAll(() =>
  startEmbeddedJobgate({
    config: `
service_id = 1
[store]
url = "sqlite:jobgate.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/few"
job_id = 1
concurrency = 3
[[webhooks.endpoints]]
path = "/slow"
job_id = 2
rate = "${RATE.calls}/s"
[[webhooks.endpoints]]
path = "/free"
job_id = 3
`,
  }),
);
const within = { timeout: 20_000, interval: 20 };

async function send(path: string, count: number): Promise<void> {
  const all = Array.from({ length: count }, () =>
    fetch(`${jobgate.webhooksUrl}${path}`, { method: "POST", body: "x" }),
  );
  for (const response of await Promise.all(all)) expect(response.status).toBe(202);
}

test("A concurrency holds over several runners that ask for more, and every JobCall gets its turn", async () => {
  let out = 0;
  const most: number[] = [];
  const start = () =>
    startRunner({
      address: jobgate.runnerAddress,
      jobIds: [1n],
      maxInFlight: 50,
      async handle() {
        out += 1;
        most.push(out);
        for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
        out -= 1;
      },
    });
  const runners = await Promise.all([start(), start(), start()]);
  await send("/few", 24);
  await expect.poll(() => runners.reduce((sum, { done }) => sum + done.length, 0), within).toBe(24);
  expect(Math.max(...most)).toBe(3);
  await Promise.all(runners.map((runner) => runner.stop()));
});

test("A full job keeps no JobCalls of other jobs waiting", async () => {
  const runner = await startRunner({ address: jobgate.runnerAddress, maxInFlight: 50, handle: "leave" });
  await send("/few", 20);
  await runner.waitFor(3);
  await send("/free", 4);
  await runner.waitFor(7);
  expect(runner.calls.map(({ jobId }) => jobId)).toEqual([1n, 1n, 1n, 3n, 3n, 3n, 3n]);
  for (let i = 0; i < 24; i += 1) {
    await runner.waitFor(i + 1);
    const { callId, leaseToken } = runner.calls[i] ?? expect.fail();
    await runner.ack({ acks: [{ callId, leaseToken }] });
  }
  await runner.stop();
});

test("No more JobCalls than the rate go out in a second, and delivery goes on by itself", async () => {
  const runner = await startRunner({
    address: jobgate.runnerAddress,
    jobIds: [2n],
    maxInFlight: 50,
    handle: () => undefined,
  });
  const startedAt = performance.now();
  await send("/slow", 12);
  await expect.poll(() => runner.done.length, within).toBe(12);
  // The 11th goes out after two whole seconds at the earliest.
  expect(performance.now() - startedAt).toBeGreaterThan(2 * RATE.perMs);
  await runner.stop();
});
