import type { JobCall } from "../src/gen/jobgate/v1/runner_pb.ts";
import type { Jobgate } from "../test/helpers/jobgate-process.ts";
import { startTree } from "./gateway.ts";
import { LightRunner } from "./light-runner.ts";
import { BUSY_SHARE, cpuSeconds, withBaseline } from "./load.ts";
import { post } from "./post.ts";
import { PUSHED_JOB, PUSHED_PATH, PushedRunner } from "./pushed-runner.ts";
import type { Figure } from "./summary.ts";
import { THIS_TREE, type Tree } from "./trees.ts";

const TURNS = 2;
const TURN_SECONDS = 2;
const PUSHED_AT_ONCE = 64;
/** Size of a body, number of jobs in flight, and how the runner acks: so many in one message, all that came together, or by its answer. */
const CASES = [
  { bodyBytes: 256, inFlight: 1, method: "Subscribe", acks: "1" },
  { bodyBytes: 256, inFlight: 64, method: "Subscribe", acks: "1" },
  { bodyBytes: 256, inFlight: 64, method: "Subscribe", acks: "a turn's" },
  { bodyBytes: 256, inFlight: 64, method: "Work", acks: "1" },
  { bodyBytes: 256, inFlight: 64, method: "Work", acks: "8" },
  { bodyBytes: 256, inFlight: 64, method: "Work", acks: "32" },
  { bodyBytes: 256, inFlight: 64, method: "push", acks: "answer" },
  { bodyBytes: 16 * 1024, inFlight: 64, method: "Subscribe", acks: "1" },
  { bodyBytes: 16 * 1024, inFlight: 64, method: "Work", acks: "32" },
] as const;

type Case = (typeof CASES)[number];

interface Gateway {
  readonly webhookUrl: string;
  /** Webhook whose jobs are pushed. */
  readonly pushedUrl: string;
  readonly runnerAddress: string;
  readonly pid: number;
}

interface Turn {
  readonly jobs: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** CPU of the senders and the runner. */
  readonly ownCpuSeconds: number;
}

/**
 * Measures whole jobs (HTTP, store, stream or push, ack) beside bare HTTP and the same delivery without a store.
 * @param newDatabase makes the databases of the gateways, which also run in pairs then: one is sent the requests, the
 *   other has the runner. Default: SQLite
 */
export async function benchJobs(
  trees: readonly Tree[],
  newDatabase?: () => Promise<string>,
): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  const rows: Record<string, string | number>[] = [];
  const target = await PushedRunner.start();
  const use = async ([http = "", runnerAddress = ""]: readonly string[], pid: number) => {
    const endpoints = pushing(target);
    const gateways: { name: string; jobgate: Jobgate; runner: Jobgate }[] = [];
    for (const tree of trees) {
      for (const replicas of newDatabase === undefined ? [1] : [1, 2]) {
        const options = { endpoints, ...(newDatabase && { store: await newDatabase() }) };
        const { jobgate } = await startTree(tree, options);
        const runner = replicas === 1 ? jobgate : (await startTree(tree, options)).jobgate;
        gateways.push({ name: replicas === 1 ? tree.name : `${tree.name}, 2 replicas`, jobgate, runner });
      }
    }
    const contestants = [
      {
        name: "no store",
        gateway: {
          webhookUrl: `${http}/hooks/bench`,
          pushedUrl: `${http}${PUSHED_PATH}`,
          runnerAddress,
          pid,
        },
      },
      ...gateways.map(({ name, jobgate, runner }) => ({
        name,
        gateway: {
          pid: jobgate.pid,
          runnerAddress: runner.runnerAddress,
          webhookUrl: `${jobgate.webhooksUrl}/hooks/bench`,
          pushedUrl: `${jobgate.webhooksUrl}${PUSHED_PATH}`,
        },
      })),
    ];
    try {
      for (const work of CASES) {
        const turns = contestants.map((): Turn[] => []);
        for (let turn = 0; turn < TURNS; turn += 1) {
          for (const [i, { gateway }] of contestants.entries())
            turns[i]?.push(await measure(gateway, work, target));
        }
        const results = turns.map(total);
        for (const [i, { jobs, seconds, cpuSeconds, ownCpuSeconds }] of results.entries()) {
          const [bare] = results as [Turn, ...Turn[]];
          const ofBare = jobs / seconds / (bare.jobs / bare.seconds);
          if (contestants[i]?.name === THIS_TREE.name)
            figures.push({
              name: `jobs/s (${work.bodyBytes} B, ${work.inFlight} in flight, ${work.method}, acks: ${work.acks}), of no store`,
              ratio: ofBare,
              better: "higher",
            });
          rows.push({
            "": contestants[i]?.name ?? "",
            body: `${work.bodyBytes} B`,
            "in flight": work.inFlight,
            stream: work.method,
            "acks a message": work.acks,
            "jobs/s": `${ownCpuSeconds / seconds > BUSY_SHARE ? "over " : ""}${Math.round(jobs / seconds)}`,
            "of no store": ofBare.toFixed(2),
            "µs CPU": Math.round((cpuSeconds / jobs) * 1e6),
          });
        }
      }
    } finally {
      await Promise.all(
        gateways.flatMap(({ jobgate, runner }) => [...new Set([jobgate, runner])]).map((one) => one.stop()),
      );
    }
  };
  try {
    await withBaseline("stream-without-store", use, [target.url]);
  } finally {
    target.stop();
  }
  console.log(
    "\nWhole jobs: HTTP → store → runner → ack. “over”: senders and runner, one process, were the bottleneck",
  );
  console.table(rows);
  return figures;
}

function pushing({ url }: PushedRunner): string {
  return `[[webhooks.endpoints]]
path = "${PUSHED_PATH}"
job_id = ${PUSHED_JOB}
[[push]]
url = "${url}"
job_ids = [${PUSHED_JOB}]
concurrency = ${PUSHED_AT_ONCE}`;
}

function total(turns: readonly Turn[]): Turn {
  const sum = (of: (turn: Turn) => number) => turns.reduce((all, turn) => all + of(turn), 0);
  return {
    jobs: sum(({ jobs }) => jobs),
    seconds: sum(({ seconds }) => seconds),
    cpuSeconds: sum((turn) => turn.cpuSeconds),
    ownCpuSeconds: sum((turn) => turn.ownCpuSeconds),
  };
}

/** Runs `inFlight` senders, each with one job under way until its JobCall reaches the runner. */
async function measure(
  gateway: Gateway,
  { bodyBytes, inFlight, method, acks }: Case,
  target: PushedRunner,
): Promise<Turn> {
  const arrivals = new Map<number, () => void>();
  const arrived = (body: Uint8Array) => {
    const id = Buffer.from(body).readUInt32BE(0);
    arrivals.get(id)?.();
    arrivals.delete(id);
  };
  const url = method === "push" ? gateway.pushedUrl : gateway.webhookUrl;
  target.onBody = arrived;
  const runner =
    method === "push"
      ? { stop: () => undefined }
      : await startRunner(gateway.runnerAddress, { method, acks }, ({ body }) => arrived(body));
  const cpuBefore = cpuSeconds(gateway.pid);
  const ownCpuBefore = cpuSeconds(process.pid);
  const startedAt = performance.now();
  const endsAt = startedAt + TURN_SECONDS * 1000;
  let jobs = 0;
  const send = async () => {
    while (performance.now() < endsAt) {
      const id = ++jobs;
      const body = Buffer.alloc(bodyBytes);
      body.writeUInt32BE(id);
      const arrival = new Promise<void>((resolve) => arrivals.set(id, resolve));
      await Promise.all([post(url, body), arrival]);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, send));
  const seconds = (performance.now() - startedAt) / 1000;
  await runner.stop();
  return {
    jobs,
    seconds,
    cpuSeconds: cpuSeconds(gateway.pid) - cpuBefore,
    ownCpuSeconds: cpuSeconds(process.pid) - ownCpuBefore,
  };
}

/** Opens a stream as a runner that acks each JobCall. `stop` resolves once all are acked. */
async function startRunner(
  address: string,
  { method, acks }: Pick<Case, "method" | "acks">,
  arrived: (call: JobCall) => void,
) {
  const runner = new LightRunner(address);
  const underWay = new Set<Promise<void>>();
  let unacked: JobCall[] = [];
  const onCall = (call: JobCall) => {
    arrived(call);
    unacked.push(call);
    if (acks !== "a turn's") {
      if (unacked.length === Number(acks)) ack();
    } else if (unacked.length === 1) setImmediate(ack);
  };
  let acker: Pick<LightRunner, "ack"> = runner;
  const ack = () => {
    const acked = acker.ack(unacked).finally(() => underWay.delete(acked));
    unacked = [];
    underWay.add(acked);
  };
  if (method === "Work") acker = await runner.work(256, onCall);
  else await runner.subscribe(256, onCall);
  return {
    async stop() {
      if (unacked.length > 0) ack();
      while (underWay.size > 0 || unacked.length > 0) {
        await new Promise(setImmediate);
        await Promise.all(underWay);
      }
      runner.close();
    },
  };
}
