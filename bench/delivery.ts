import { startRunner } from "../test/helpers/runner.ts";
import { startTree, type TreeGateway } from "./gateway.ts";
import { percentile } from "./load.ts";
import { post } from "./post.ts";
import type { Tree } from "./trees.ts";

const IN_FLIGHT = [1, 64];

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
  console.log("\nWebhook → runner, one Ack at a time (below 0: the JobCall arrived before the 202)");
  console.table(rows);
}

/** Runs `inFlight` senders, each of which waits for the 202 and for the JobCall at the runner. */
async function measure(
  { jobgate }: TreeGateway,
  inFlight: number,
): Promise<Record<"fromSent" | "fromAccepted", number[]>> {
  const count = inFlight === 1 ? 1_000 : 20_000;
  try {
    const arrivals = new Map<number, (at: number) => void>();
    const runner = await startRunner({
      address: jobgate.runnerAddress,
      maxInFlight: 256,
      handle: (call) => {
        arrivals.get(Buffer.from(call.body).readUInt32BE(0))?.(performance.now());
        return undefined;
      },
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
        arrivals.delete(id);
        fromSent.push(arrivedAt - sentAt);
        fromAccepted.push(arrivedAt - acceptedAt);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, send));
    await runner.stop();
    return { fromSent, fromAccepted };
  } finally {
    await jobgate.stop();
  }
}
