import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startTree, type TreeGateway } from "./gateway.ts";
import { LightRunner } from "./light-runner.ts";
import { percentile } from "./load.ts";
import { post } from "./post.ts";
import type { Tree } from "./trees.ts";

const IN_FLIGHT = [1, 64];
const SYNCS = 200;
/** Time between two syncs, as between two webhooks: right after another one, a sync takes a tenth of the time. */
const SYNC_PAUSE_MS = 5;

/** Measures the time from a webhook to its JobCall at the runner. */
export async function benchDelivery(trees: readonly Tree[]): Promise<void> {
  const rows = [];
  for (const inFlight of IN_FLIGHT) {
    for (const tree of trees) {
      const { fromSent, fromAccepted } = await measure(await startTree(tree), inFlight);
      for (const [from, values] of [
        ["sending the request", fromSent],
        ["the 202", fromAccepted],
      ] as const) {
        rows.push({
          "": tree.name,
          "in flight": inFlight,
          from,
          "p50 ms": percentile(values, 0.5).toFixed(2),
          "p99 ms": percentile(values, 0.99).toFixed(2),
        });
      }
    }
  }
  const syncs = await measureSync();
  console.log(`\nOne write and fdatasync: ${percentile(syncs, 0.5).toFixed(2)} ms (p50)`);
  console.log("Webhook → runner (below 0: the JobCall arrived before the 202)");
  console.table(rows);
}

/** Runs `inFlight` senders, each of which waits for the 202, for the JobCall at the runner, and for its Ack. */
async function measure(
  { jobgate }: TreeGateway,
  inFlight: number,
): Promise<Record<"fromSent" | "fromAccepted", number[]>> {
  const count = inFlight === 1 ? 1_000 : 20_000;
  try {
    const arrivals = new Map<number, (at: number) => void>();
    const acks = new Map<number, Promise<void>>();
    const runner = new LightRunner(jobgate.runnerAddress);
    await runner.subscribe(256, (call) => {
      const id = Buffer.from(call.body).readUInt32BE(0);
      acks.set(id, runner.ack([call]));
      arrivals.get(id)?.(performance.now());
    });
    const fromSent: number[] = [];
    const fromAccepted: number[] = [];
    let next = 0;
    const send = async () => {
      for (let id = next++; id < count; id = next++) {
        const body = Buffer.alloc(256);
        body.writeUInt32BE(id);
        const arrival = new Promise<number>((resolve) => arrivals.set(id, resolve));
        const sentAt = performance.now();
        const accepted = post(`${jobgate.webhooksUrl}/hooks/bench`, body).then(() => performance.now());
        const [acceptedAt, arrivedAt] = await Promise.all([accepted, arrival]);
        // Otherwise the next request would wait for the commit of this Ack.
        await acks.get(id);
        arrivals.delete(id);
        acks.delete(id);
        fromSent.push(arrivedAt - sentAt);
        fromAccepted.push(arrivedAt - acceptedAt);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, send));
    runner.close();
    return { fromSent, fromAccepted };
  } finally {
    await jobgate.stop();
  }
}

/** Returns the milliseconds that each write and fdatasync of a commit's size takes on an idle disk. */
async function measureSync(): Promise<number[]> {
  const folder = mkdtempSync(join(tmpdir(), "jobgate-sync-"));
  const file = openSync(join(folder, "log"), "w");
  const commit = Buffer.alloc(3 * 4096);
  const times: number[] = [];
  for (let i = 0; i < SYNCS; i += 1) {
    await sleep(SYNC_PAUSE_MS);
    const startedAt = performance.now();
    writeSync(file, commit);
    fdatasyncSync(file);
    times.push(performance.now() - startedAt);
  }
  closeSync(file);
  rmSync(folder, { recursive: true });
  return times;
}
