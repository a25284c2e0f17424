import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { processEnded, spawnTethered } from "../src/node/tethered-process.ts";
import type { GeneratedLoad } from "./load-generator.ts";
import { findWrk, loadWithWrk } from "./wrk.ts";

const run = promisify(execFile);
const GENERATOR = fileURLToPath(new URL("load-generator.ts", import.meta.url));
const HAS_WRK = await findWrk();
const TURNS = 3;
const TURN_SECONDS = 2;
const WARM_UP_SECONDS = 1;
const WARM_UP_REQUESTS = 5_000;
const MAX_WARM_UPS = 8;
/** Share of a core from which the load generator is the bottleneck. */
export const BUSY_SHARE = 0.9;
const TICKS_PER_SECOND = 100;

/** Requests to send: POSTs from `connections` connections, one in flight on each. */
export interface LoadTarget {
  /** Get the same number of connections each. They differ in host and port only. */
  readonly urls: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  /** Replaces each body by a number of the same length. */
  readonly isUnique?: boolean;
  /** Expected status; another one is an error. */
  readonly status: number;
  readonly connections: number;
  readonly seconds: number;
}

/** One server under load, as a row of a table. */
export interface Contestant {
  readonly name: string;
  /** The server's processes, whose CPU is measured. */
  readonly pids: readonly number[];
  readonly target: Omit<LoadTarget, "seconds">;
}

export interface LoadResult {
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** CPU of the server's processes for each request. */
  readonly cpuMicros: number;
  /** True if a quicker load generator could have got more. */
  readonly isGeneratorBound: boolean;
}

/** Loads the contestants in turns, so that a machine whose speed drifts treats them alike. */
export async function compete(contestants: readonly Contestant[]): Promise<LoadResult[]> {
  console.log(`\nRequests come from ${HAS_WRK ? "wrk" : "a Node process, because wrk is not installed"}.`);
  const turns = contestants.map((): (GeneratedLoad & { readonly cpuSeconds: number })[] => []);
  for (const { target } of contestants) await warmUp(target);
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const [i, { pids, target }] of contestants.entries()) {
      const cpu = () => pids.reduce((all, pid) => all + cpuSeconds(pid), 0);
      const cpuBefore = cpu();
      const load = await generate({ ...target, seconds: TURN_SECONDS });
      turns[i]?.push({ ...load, cpuSeconds: cpu() - cpuBefore });
    }
  }
  return turns.map((loads) => {
    const sum = (of: (load: (typeof loads)[number]) => number) =>
      loads.reduce((all, load) => all + of(load), 0);
    const requests = sum((load) => load.requests);
    return {
      perSecond: requests / sum((load) => load.seconds),
      p50: percentile(
        loads.map(({ p50 }) => p50),
        0.5,
      ),
      p99: percentile(
        loads.map(({ p99 }) => p99),
        0.5,
      ),
      cpuMicros: (sum((load) => load.cpuSeconds) / requests) * 1e6,
      isGeneratorBound: loads.some(({ cpuShare }) => cpuShare > BUSY_SHARE),
    };
  });
}

/** Sends enough for V8 to have compiled what the server runs, also on a machine that is busy. */
async function warmUp(target: Contestant["target"]): Promise<void> {
  for (let turn = 0, sent = 0; turn < MAX_WARM_UPS && sent < WARM_UP_REQUESTS; turn += 1)
    sent += (await generate({ ...target, seconds: WARM_UP_SECONDS })).requests;
}

/** Columns of a load's row. */
export function loadRow({ perSecond, p50, p99, cpuMicros, isGeneratorBound }: LoadResult) {
  return {
    "requests/s": `${isGeneratorBound ? "over " : ""}${Math.round(perSecond)}`,
    "p50 ms": p50.toFixed(1),
    "p99 ms": p99.toFixed(1),
    "µs CPU": Math.round(cpuMicros),
  };
}

async function generate(target: LoadTarget): Promise<GeneratedLoad> {
  if (HAS_WRK) return loadWithWrk(target);
  const args = ["--import", import.meta.resolve("tsx"), GENERATOR, JSON.stringify(target)];
  const { stdout } = await run(process.execPath, args);
  return JSON.parse(stdout) as GeneratedLoad;
}

/** Runs one of bench/baselines as a process, and `use` with the addresses it prints and its process ID. */
export async function withBaseline<Result>(
  name: "bare-http" | "forward" | "one-commit-a-request" | "one-row-a-transaction" | "stream-without-store",
  use: (addresses: readonly string[], pid: number) => Promise<Result>,
  args: readonly string[] = [],
): Promise<Result> {
  const program = fileURLToPath(new URL(`baselines/${name}.ts`, import.meta.url));
  const child = spawnTethered({
    command: process.execPath,
    args: ["--import", import.meta.resolve("tsx"), program, ...args],
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

/** Returns the user and system time of a process and its threads, or NaN without /proc. */
export function cpuSeconds(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return Number.NaN;
  }
}

/** Returns the value below which `share` of the unsorted values lie. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
