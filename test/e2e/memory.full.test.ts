import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { expect, it } from "vitest";
import { openStore } from "../../src/open-store.ts";
import { howMany } from "../helpers/how-many.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { startRunner } from "../helpers/runner.ts";

const QUEUED = howMany(300_000, 1_000_000);
const AT_ONCE = 4_000;
const MAX_RSS_MB = 250;
const SAMPLES = 15;
const SAMPLE_EVERY_MS = 1_000;
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

/** Sells to the pages of one origin. */
const SHOP = `
[x402]
bind_address = "127.0.0.1:0"
facilitator_url = "http://127.0.0.1:9"
default_invocation_mode = "public_paid"
cors_origins = ["https://shop.example"]
[[x402.accepted_tokens]]
token = "USDC"
network = "base"
pay_to = "0x1111111111111111111111111111111111111111"
[[jobs]]
job_index = 0
name = "work"
price = "$0.01"
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
    for (let sample = 0; sample < SAMPLES; sample++) {
      await sleep(SAMPLE_EVERY_MS);
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

it("10,000 origins in preflights → each is answered, and memory stays under 100 MB more", async () => {
  const jobgate = await startJobgate({ config: `${CONFIG}${SHOP}` });
  const ask = async (number: number) => {
    const origin = `https://${"a".repeat(16_000)}${number}.example`;
    const { status } = await fetch(`${jobgate.x402Url}/x402/jobs/1/0`, {
      method: "OPTIONS",
      headers: { origin },
    });
    expect(status).toBe(204);
  };
  try {
    for (let warm = 0; warm < 100; warm++) await ask(warm);
    const before = await residentMb(jobgate.pid);
    for (let sent = 0; sent < 10_000; sent += 50) {
      await Promise.all(Array.from({ length: 50 }, (_, number) => ask(sent + number)));
    }
    expect((await residentMb(jobgate.pid)) - before).toBeLessThan(100);
  } finally {
    await jobgate.stop();
  }
});
