import type { JobCall } from "../src/gen/jobgate/v1/runner_pb.ts";
import { makeRunnerClient } from "../test/helpers/runner-client.ts";
import { startTree } from "./gateway.ts";
import { cpuSeconds, withBaseline } from "./load.ts";
import { post } from "./post.ts";
import type { Tree } from "./trees.ts";

const TURNS = 2;
const TURN_SECONDS = 2;
/** Size of a body, number of jobs in flight, and whether the runner acks all that arrived together in one call. */
const CASES = [
  { bodyBytes: 256, inFlight: 1, acks: "one a call" },
  { bodyBytes: 256, inFlight: 64, acks: "one a call" },
  { bodyBytes: 256, inFlight: 64, acks: "batched" },
  { bodyBytes: 16 * 1024, inFlight: 64, acks: "one a call" },
] as const;

type Case = (typeof CASES)[number];

interface Gateway {
  readonly webhookUrl: string;
  readonly runnerAddress: string;
  readonly pid: number;
}

interface Turn {
  readonly jobs: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** Measures whole jobs (HTTP, store, Subscribe, Ack) beside bare HTTP and the same gRPC streams without a store. */
export async function benchJobs(trees: readonly Tree[]): Promise<void> {
  const rows: Record<string, string | number>[] = [];
  await withBaseline("stream-without-store", async ([http = "", runnerAddress = ""], pid) => {
    const gateways = await Promise.all(trees.map((tree) => startTree(tree)));
    const contestants = [
      { name: "no store", gateway: { webhookUrl: `${http}/hooks/bench`, runnerAddress, pid } },
      ...gateways.map(({ name, jobgate }) => ({
        name,
        gateway: { ...jobgate, webhookUrl: `${jobgate.webhooksUrl}/hooks/bench` },
      })),
    ];
    try {
      for (const work of CASES) {
        const turns = contestants.map((): Turn[] => []);
        for (let turn = 0; turn < TURNS; turn += 1) {
          for (const [i, { gateway }] of contestants.entries()) turns[i]?.push(await measure(gateway, work));
        }
        const results = turns.map(total);
        for (const [i, { jobs, seconds, cpuSeconds }] of results.entries()) {
          const [bare] = results as [Turn, ...Turn[]];
          rows.push({
            "": contestants[i]?.name ?? "",
            body: `${work.bodyBytes} B`,
            "in flight": work.inFlight,
            acks: work.acks,
            "jobs/s": Math.round(jobs / seconds),
            "of no store": (jobs / seconds / (bare.jobs / bare.seconds)).toFixed(2),
            "µs CPU": Math.round((cpuSeconds / jobs) * 1e6),
          });
        }
      }
    } finally {
      await Promise.all(gateways.map(({ jobgate }) => jobgate.stop()));
    }
  });
  console.log(
    "\nWhole jobs: HTTP → store → Subscribe → Ack. Senders and runner share a process, which bounds jobs/s",
  );
  console.table(rows);
}

function total(turns: readonly Turn[]): Turn {
  const sum = (of: (turn: Turn) => number) => turns.reduce((all, turn) => all + of(turn), 0);
  return {
    jobs: sum(({ jobs }) => jobs),
    seconds: sum(({ seconds }) => seconds),
    cpuSeconds: sum((turn) => turn.cpuSeconds),
  };
}

/** Runs `inFlight` senders, each with one job under way until its JobCall reaches the runner. */
async function measure(gateway: Gateway, { bodyBytes, inFlight, acks }: Case): Promise<Turn> {
  const arrivals = new Map<number, () => void>();
  const runner = await subscribe(gateway.runnerAddress, acks, (call) => {
    const id = Buffer.from(call.body).readUInt32BE(0);
    arrivals.get(id)?.();
    arrivals.delete(id);
  });
  const cpuBefore = cpuSeconds(gateway.pid);
  const startedAt = performance.now();
  const endsAt = startedAt + TURN_SECONDS * 1000;
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
  return { jobs, seconds, cpuSeconds: cpuSeconds(gateway.pid) - cpuBefore };
}

/** Subscribes as a runner that acks each JobCall. `stop` resolves once all are acked. */
async function subscribe(address: string, acks: Case["acks"], arrived: (call: JobCall) => void) {
  const client = makeRunnerClient({ address });
  const stream = client.subscribe({ subscriber: "bench", maxInFlight: 256 });
  const underWay = new Set<Promise<unknown>>();
  let unacked: JobCall[] = [];
  const ack = () => {
    const acked = client.ack({ acks: unacked.map(({ callId, leaseToken }) => ({ callId, leaseToken })) });
    unacked = [];
    underWay.add(acked);
    void acked.finally(() => underWay.delete(acked));
  };
  stream.on("data", (call: JobCall) => {
    arrived(call);
    if (unacked.push(call) > 1) return;
    if (acks === "batched") setImmediate(ack);
    else ack();
  });
  const ended = new Promise<void>((resolve) =>
    stream.on("error", () => resolve()).on("end", () => resolve()),
  );
  await new Promise((resolve) => stream.once("metadata", resolve));
  return {
    async stop() {
      while (underWay.size > 0 || unacked.length > 0) {
        await new Promise(setImmediate);
        await Promise.all(underWay);
      }
      stream.cancel();
      await ended;
      client.close();
    },
  };
}
