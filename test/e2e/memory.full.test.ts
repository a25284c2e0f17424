import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { expect, it } from "vitest";
import { openStore } from "../../src/open-store.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { startRunner } from "../helpers/runner.ts";

const QUEUED = 1_000_000;
const AT_ONCE = 4_000;
const MAX_RSS_MB = 250;
const WATCHED_SECONDS = 15;
const CONFIG = `
service_id = 1
[store]
url = "sqlite:jobs.db"
max_pending = 2000000
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
`;

async function enqueue(path: string): Promise<void> {
  const store = await openStore({ url: `sqlite:${path}`, maxPending: 2 * QUEUED }, pino({ level: "silent" }));
  const body = Buffer.alloc(256, "x");
  for (let queued = 0; queued < QUEUED; queued += AT_ONCE) {
    await Promise.all(
      Array.from({ length: AT_ONCE }, () =>
        store.accept({ origin: "webhook", jobId: 1n, serviceId: 1n, body, metadata: {} }),
      ),
    );
  }
  await store.close();
}

async function residentMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

it(`Runner stops reading: with ${QUEUED} JobCalls queued, memory stays under ${MAX_RSS_MB} MB`, async () => {
  const idle = await startJobgate({ config: CONFIG });
  idle.kill("SIGTERM");
  await idle.exited;
  await enqueue(join(idle.folder, "jobs.db"));

  const jobgate = await startJobgate({ config: CONFIG, folder: idle.folder });
  const stopped = await startRunner({
    address: jobgate.runnerAddress,
    maxInFlight: 10_000,
    handle: "leave",
  });
  let peak = 0;
  try {
    await stopped.waitFor(1);
    stopped.pause();
    for (let second = 0; second < WATCHED_SECONDS; second++) {
      await sleep(1_000);
      peak = Math.max(peak, await residentMb(jobgate.pid));
    }
    console.log(`peak resident memory: ${Math.round(peak)} MB`);
    expect(peak).toBeGreaterThan(0);
    expect(peak).toBeLessThan(MAX_RSS_MB);
  } finally {
    stopped.kill();
    await jobgate.stop();
    await idle.stop();
  }
});
