import { readFileSync } from "node:fs";
import { startJobgate } from "../test/helpers/jobgate-process.ts";
import { startRunner } from "../test/helpers/runner.ts";
import { withBaseline } from "./load.ts";
import { post } from "./post.ts";

const SECONDS = 4;
const TICKS_PER_SECOND = 100;

interface Gateway {
  readonly webhookUrl: string;
  readonly runnerAddress: string;
  readonly pid: number;
}

interface JobsResult {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

/** Measures whole jobs (HTTP, store, Subscribe, Ack) beside the same HTTP and gRPC streams without a store. */
export async function benchJobs(config: string): Promise<void> {
  const rows = [];
  for (const bodyBytes of [256, 16 * 1024]) {
    for (const inFlight of [1, 64]) {
      const bare = await withBaseline("stream-without-store", ([http = "", grpc = ""], pid) =>
        measure({ webhookUrl: `${http}/hooks/bench`, runnerAddress: grpc, pid }, bodyBytes, inFlight),
      );
      const jobgate = await startJobgate({ config, from: "build" });
      const { pid, runnerAddress, webhooksUrl } = jobgate;
      const durable = await measure(
        { webhookUrl: `${webhooksUrl}/hooks/bench`, runnerAddress, pid },
        bodyBytes,
        inFlight,
      ).finally(() => jobgate.stop());
      rows.push({
        body: `${bodyBytes} B`,
        "in flight": inFlight,
        "jobs/s": Math.round(durable.perSecond),
        "without store": Math.round(bare.perSecond),
        ratio: (durable.perSecond / bare.perSecond).toFixed(2),
        "µs CPU per job": Math.round(durable.cpuMicros),
        "µs without store": Math.round(bare.cpuMicros),
      });
    }
  }
  console.log("\nWhole jobs: HTTP → store → Subscribe → Ack, one Ack per job");
  console.table(rows);
}

/** Runs `inFlight` senders, each with one job under way until its JobCall reaches the runner. */
async function measure(gateway: Gateway, bodyBytes: number, inFlight: number): Promise<JobsResult> {
  const arrivals = new Map<number, () => void>();
  const runner = await startRunner({
    address: gateway.runnerAddress,
    maxInFlight: 256,
    handle: (call) => {
      const id = Buffer.from(call.body).readUInt32BE(0);
      arrivals.get(id)?.();
      arrivals.delete(id);
      return undefined;
    },
  });
  const cpuBefore = cpuSeconds(gateway.pid);
  const startedAt = performance.now();
  const endsAt = startedAt + SECONDS * 1000;
  let jobs = 0;
  const send = async () => {
    while (performance.now() < endsAt) {
      const id = ++jobs;
      const body = Buffer.alloc(bodyBytes);
      body.writeUInt32BE(id);
      const arrival = new Promise<void>((resolve) => arrivals.set(id, resolve));
      await Promise.all([post(gateway.webhookUrl, body), arrival]);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, send));
  const seconds = (performance.now() - startedAt) / 1000;
  await runner.stop();
  return { perSecond: jobs / seconds, cpuMicros: ((cpuSeconds(gateway.pid) - cpuBefore) / jobs) * 1e6 };
}

/** Returns the user and system time of a process and its threads, or 0 without /proc. */
function cpuSeconds(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return 0;
  }
}
