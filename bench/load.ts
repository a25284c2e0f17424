import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import autocannon from "autocannon";
import { processEnded, spawnTethered } from "../test/helpers/tethered-process.ts";

const SECONDS = 5;
const WARM_UP_SECONDS = 1;

export interface LoadResult {
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

/** POSTs `body` from `connections` connections, one request each at a time. Throws if an answer is not 2xx. */
export async function load(url: string, body: Buffer, connections: number): Promise<LoadResult> {
  await autocannon({ url, method: "POST", body, connections, duration: WARM_UP_SECONDS });
  const result = await autocannon({ url, method: "POST", body, connections, duration: SECONDS });
  if (result.non2xx > 0 || result.errors > 0) {
    throw new Error(`${result.non2xx} answers were not 2xx and ${result.errors} requests failed at ${url}`);
  }
  return { perSecond: result.requests.average, p50: result.latency.p50, p99: result.latency.p99 };
}

/** Runs one of bench/baselines as a process, and `use` with the addresses it prints and its process ID. */
export async function withBaseline<Result>(
  name: "no-store" | "one-commit-a-request" | "one-row-a-transaction" | "stream-without-store",
  use: (addresses: readonly string[], pid: number) => Promise<Result>,
  args: readonly string[] = [],
): Promise<Result> {
  const program = fileURLToPath(new URL(`baselines/${name}.ts`, import.meta.url));
  const child = spawnTethered({
    command: process.execPath,
    args: ["--import", import.meta.resolve("tsx"), program, ...args],
    env: process.env,
    cwd: process.cwd(),
  });
  try {
    const addresses: string[] = [];
    const expected = name === "stream-without-store" ? 2 : 1;
    for await (const line of createInterface({ input: child.stdout })) {
      if (addresses.push(line) === expected) break;
    }
    return await use(addresses, child.pid ?? 0);
  } finally {
    child.kill("SIGKILL");
    await processEnded(child);
  }
}

/** Returns the value below which `share` of the unsorted values lie. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
