import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CallOrder } from "../src/core/job-call.ts";
import type { JobCall } from "../src/gen/jobgate/v1/runner_pb.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../src/store/store.ts";
import { startTree } from "./gateway.ts";
import { LightRunner } from "./light-runner.ts";
import { cpuSeconds, percentile } from "./load.ts";
import { post } from "./post.ts";
import type { Tree } from "./trees.ts";

const CALLS = 20_000;
const KEYS = 10_000;
const PAIRS = 5;
/** Keys of JobCalls that are over. */
const IDLE_KEYS = 100_000;
/** Accepts under way at once, and JobCalls of a claim. */
const AT_ONCE = 256;
const BODY = Buffer.alloc(256, "x");
const WEBHOOKS_AT_ONCE = 64;
/** JobCalls that a runner acks with one message. */
const ACKS = 32;

interface Cost {
  /** Microseconds of CPU for each JobCall. */
  readonly accept: number;
  readonly claimAndAck: number;
}

type OrderOf = (number: number) => CallOrder | undefined;

const key = (number: number): CallOrder => ({
  owner: "/hooks/bench",
  key: `cus_${number}`,
  holdsOnDead: false,
});

const keyOfMany: OrderOf = (number) => key(number % KEYS);
const noKey: OrderOf = () => undefined;

/** Orders by name. In pairs with the first, one after the other, because the machine's speed drifts. */
const ORDERS: Readonly<Record<string, readonly [OrderOf, earlier?: OrderOf]>> = {
  "no key": [noKey],
  [`${KEYS} keys, ${CALLS / KEYS} calls each`]: [keyOfMany],
  "a key for each call": [key],
  [`no key, after ${IDLE_KEYS} finished calls without keys`]: [noKey, noKey],
  [`no key, after ${IDLE_KEYS} finished calls with a key each`]: [noKey, (number) => key(-number)],
};

/** Measures the store's CPU for accepting, and for claiming and acking, JobCalls with keys and without, and then whole jobs. */
export async function benchOrder(trees: readonly Tree[]): Promise<void> {
  for (const tree of trees) await benchWebhooks(tree);
  const costs = new Map(Object.keys(ORDERS).map((name) => [name, [] as Cost[]]));
  for (let pair = 0; pair < PAIRS; pair += 1)
    for (const [name, order] of Object.entries(ORDERS)) costs.get(name)?.push(await inStore(...order));
  const [plain] = [...costs.values()].map(medians);
  console.log(`\n${CALLS} JobCalls through an SQLite store, µs of CPU for each, and the ratio to "no key"`);
  console.table(
    [...costs].map(([name, all]) => {
      const { accept, claimAndAck } = medians(all);
      return {
        "": name,
        accept: accept.toFixed(1),
        "of no key": ((plain?.accept ?? 0) / accept).toFixed(2),
        "claim and ack": claimAndAck.toFixed(1),
        "of no key ": ((plain?.claimAndAck ?? 0) / claimAndAck).toFixed(2),
      };
    }),
  );
}

function medians(all: readonly Cost[]): Cost {
  const median = (of: (cost: Cost) => number) => percentile(all.map(of), 0.5);
  return { accept: median(({ accept }) => accept), claimAndAck: median((cost) => cost.claimAndAck) };
}

/** @param earlier order of JobCalls that are finished before */
async function inStore(orderOf: OrderOf, earlier?: OrderOf): Promise<Cost> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-bench-"));
  const store = await openSqliteStore({
    path: join(folder, "bench.db"),
    maxPending: 1_000_000,
    encodeJobCall: ({ body }) => body,
  });
  try {
    if (earlier !== undefined) await measureOrder(store, earlier, IDLE_KEYS);
    return await measureOrder(store, orderOf, CALLS);
  } finally {
    await store.close();
    await rm(folder, { recursive: true });
  }
}

/** Accepts JobCalls, then claims and acks all of them. */
async function measureOrder(
  store: Pick<Store, "accept" | "claim" | "ack">,
  orderOf: OrderOf,
  count: number,
): Promise<Cost> {
  let next = 0;
  const accept = async () => {
    for (let number = next++; number < count; number = next++) {
      const order = orderOf(number);
      await store.accept({
        ...{ origin: "webhook", serviceId: 1n, jobId: 1n, body: BODY, metadata: {}, order },
      });
    }
  };
  const accepting = await cpuMicros(() => Promise.all(Array.from({ length: AT_ONCE }, accept)));
  const terms = { limit: AT_ONCE, jobIds: [], leaseMs: 600_000, maxAttempts: 5, subscriber: "bench" };
  const ending = await cpuMicros(async () => {
    for (let left = count; left > 0; ) {
      const { calls } = await store.claim(terms);
      if (calls.length === 0) throw new Error(`${left} JobCalls are out of reach`);
      left -= calls.length;
      await Promise.all(calls.map((call) => store.ack(call)));
    }
  });
  return { accept: accepting / count, claimAndAck: ending / count };
}

/** Returns the CPU time of this process and its threads. */
async function cpuMicros(run: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** Measures whole jobs through a gateway: webhook, store, Work stream, and acks in messages of 32. */
async function benchWebhooks(tree: Tree): Promise<void> {
  const endpoints = `[[webhooks.endpoints]]
path = "/hooks/ordered"
job_id = 1
order_by = "header:x-key"`;
  const { name, jobgate } = await startTree(tree, { endpoints });
  const paths = { "/hooks/bench": [] as Turn[], "/hooks/ordered": [] as Turn[] };
  const runner = new LightRunner(jobgate.runnerAddress);
  try {
    const counter = await countingRunner(runner);
    for (let pair = 0; pair < PAIRS; pair += 1)
      for (const [path, turns] of Object.entries(paths))
        turns.push(await sendAll(`${jobgate.webhooksUrl}${path}`, jobgate.pid, counter));
  } finally {
    runner.close();
    await jobgate.stop();
  }
  const [plain, ordered] = Object.values(paths).map((turns) => ({
    perSecond: percentile(
      turns.map((turn) => turn.perSecond),
      0.5,
    ),
    cpuMicros: percentile(
      turns.map((turn) => turn.cpuMicros),
      0.5,
    ),
  })) as [Turn, Turn];
  console.log(
    `\nWebhooks to a runner, ${WEBHOOKS_AT_ONCE} in flight, by ${name}: without keys, and with ${KEYS} keys`,
  );
  console.table(
    [plain, ordered].map(({ perSecond, cpuMicros }, i) => ({
      "": i === 0 ? "no key" : `${KEYS} keys`,
      "jobs/s": Math.round(perSecond),
      "of no key": (perSecond / plain.perSecond).toFixed(2),
      "µs CPU": Math.round(cpuMicros),
      "of no key ": (plain.cpuMicros / cpuMicros).toFixed(2),
    })),
  );
}

interface Turn {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

/** Subscribes a runner that acks each JobCall. @returns a function that resolves once so many more are acked */
async function countingRunner(runner: LightRunner): Promise<(count: number) => Promise<void>> {
  let acked = 0;
  let reached = () => {};
  let goal = Number.POSITIVE_INFINITY;
  let unacked: JobCall[] = [];
  const ack = () => {
    const calls = unacked;
    unacked = [];
    void acker.ack(calls).then(() => {
      acked += calls.length;
      if (acked >= goal) reached();
    });
  };
  const acker = await runner.work(AT_ONCE, (call) => {
    unacked.push(call);
    if (unacked.length === ACKS) ack();
    else if (unacked.length === 1) setImmediate(() => unacked.length > 0 && ack());
  });
  return (count) => {
    goal = acked + count;
    return new Promise((resolve) => {
      reached = resolve;
    });
  };
}

async function sendAll(url: string, pid: number, counter: (count: number) => Promise<void>): Promise<Turn> {
  const cpuBefore = cpuSeconds(pid);
  const startedAt = performance.now();
  const allAcked = counter(CALLS);
  let next = 0;
  const send = async () => {
    for (let number = next++; number < CALLS; number = next++) {
      const status = await post(url, BODY, `x-key: cus_${number % KEYS}\r\n`);
      if (status !== 202) throw new Error(`${url} answered ${status}; expected 202`);
    }
  };
  await Promise.all(Array.from({ length: WEBHOOKS_AT_ONCE }, send));
  await allAcked;
  const seconds = (performance.now() - startedAt) / 1_000;
  return { perSecond: CALLS / seconds, cpuMicros: ((cpuSeconds(pid) - cpuBefore) / CALLS) * 1e6 };
}
