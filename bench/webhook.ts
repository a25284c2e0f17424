import { startJobgate } from "../test/helpers/jobgate-process.ts";
import { startRunner } from "../test/helpers/runner.ts";
import { type LoadResult, load, percentile, withBaseline } from "./load.ts";
import { post } from "./post.ts";

export const CONFIG = `
service_id = 1
[store]
url = "sqlite:bench.db"
max_pending = 10000000
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/bench"
job_id = 1
`;
export const CONNECTIONS = 64;
export const BODY = Buffer.alloc(256, "x");

/** Measures durable webhook accepts per second. */
export async function benchAccepts(): Promise<void> {
  const noStore = await withBaseline("no-store", ([url]) => load(`${url}/hooks/bench`, BODY, CONNECTIONS));
  const oneCommit = await withBaseline("one-commit-a-request", ([url]) =>
    load(`${url}/hooks/bench`, BODY, CONNECTIONS),
  );
  const jobgate = await startJobgate({ config: CONFIG, from: "build" });
  const accepts = await load(`${jobgate.webhooksUrl}/hooks/bench`, BODY, CONNECTIONS).finally(() =>
    jobgate.stop(),
  );

  const row = (name: string, result: LoadResult) => ({
    "": name,
    "accepts/s": Math.round(result.perSecond),
    "p50 ms": result.p50,
    "p99 ms": result.p99,
    "of no store": (result.perSecond / noStore.perSecond).toFixed(2),
  });
  console.log(`\nWebhook accepts, 256 B, ${CONNECTIONS} in flight`);
  console.table([
    row("no store, no runner", noStore),
    row("one commit per request", oneCommit),
    row("jobgate, durable", accepts),
  ]);
}

/** Measures the time from a webhook to its JobCall at the runner. */
export async function benchDelivery(): Promise<void> {
  const rows = [];
  for (const inFlight of [1, CONNECTIONS]) {
    const { fromSent, fromAccepted } = await measureDelivery(inFlight);
    for (const [from, values] of [
      ["sending the request", fromSent],
      ["the 202", fromAccepted],
    ] as const) {
      rows.push({
        "in flight": inFlight,
        from,
        "p50 ms": percentile(values, 0.5).toFixed(2),
        "p99 ms": percentile(values, 0.99).toFixed(2),
      });
    }
  }
  console.log("\nWebhook → runner, one Ack at a time (below 0: the JobCall arrived before the 202)");
  console.table(rows);
}

/** Runs `inFlight` senders, each of which waits for the 202 and for the JobCall at the runner. */
async function measureDelivery(inFlight: number): Promise<{ fromSent: number[]; fromAccepted: number[] }> {
  const count = inFlight === 1 ? 1_000 : 20_000;
  const jobgate = await startJobgate({ config: CONFIG, from: "build" });
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
