import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { startJobgate } from "../test/helpers/jobgate-process.ts";
import { jobgateProgram, type ProgramSource } from "../test/helpers/jobgate-program.ts";
import { CLOSED_FACILITATOR, SALES_CONFIG, WEBHOOKS_CONFIG } from "../test/helpers/small-configs.ts";
import { percentile } from "./load.ts";
import type { Figure } from "./summary.ts";
import type { Tree } from "./trees.ts";

const STARTS = 15;
const FEW_STARTS = 5;
/** Times after the start at which the memory is read: at once, and after an idle process has collected its garbage. */
const [SOON_MS, LATER_MS] = [2_000, 60_000];
/** Unit of CPU times in /proc. */
const TICK_MS = 10;

/** Sells a job. Nothing answers at its addresses. */
export const PAID_JOB = `${SALES_CONFIG}${CLOSED_FACILITATOR}`;

/** Configurations by what they run. Nothing answers at their addresses. */
const CONFIGS: Readonly<Record<string, string>> = {
  "webhooks alone": WEBHOOKS_CONFIG,
  "a paid job": PAID_JOB,
  "most parts": `${SALES_CONFIG}
[[x402.facilitators]]
local = true
signer = { private_key = "0x${"5e".repeat(32)}" }
rpc_urls = { "base-sepolia" = "http://127.0.0.1:9" }
[x402.refunds]
signer = { private_key = "0x${"5f".repeat(32)}" }
[x402.receipts]
signer = { private_key = "0x${"5d".repeat(32)}" }
[x402.mpp]
secret_key = "${randomBytes(32).toString("hex")}"
[x402.callbacks]
[[push]]
url = "http://127.0.0.1:9/jobs"
job_ids = [30]
[[callbacks]]
url = "http://127.0.0.1:9/jobgate"
events = ["dead_letter"]
`,
};

/** Measures the time and CPU until all listeners are open, and the memory of an idle gateway. */
export async function benchStart(trees: readonly Tree[]): Promise<void> {
  for (const [what, config] of Object.entries(CONFIGS)) await printStarts(what, config, trees);
  benchCheck(trees);
}

/** Prints the starts of trees with one configuration, with ratios to the first tree. */
export async function printStarts(what: string, config: string, trees: readonly Tree[]): Promise<void> {
  const series = trees.map(() => ({
    readyMs: [] as number[],
    cpuMs: [] as number[],
    soonMb: [] as number[],
  }));
  for (let start = 0; start < STARTS; start += 1) {
    for (const [i, tree] of trees.entries()) {
      const startedAt = performance.now();
      const jobgate = await startJobgate({ from: sourceOf(tree), config });
      series[i]?.readyMs.push(performance.now() - startedAt);
      series[i]?.cpuMs.push(cpuMilliseconds(jobgate.pid));
      await sleep(SOON_MS);
      series[i]?.soonMb.push(residentMegabytes(jobgate.pid));
      await jobgate.stop();
    }
  }
  // One after the other: garbage is collected later while another program works.
  const laterMb: number[] = [];
  for (const tree of trees) laterMb.push(await megabytesLater(tree, config));
  const figures = series.map(({ readyMs, cpuMs, soonMb }, i) => ({
    "ready after ms": median(readyMs),
    "CPU ms": median(cpuMs),
    [`MB after ${SOON_MS / 1_000} s`]: median(soonMb),
    [`MB after ${LATER_MS / 1_000} s`]: Math.round(laterMb[i] ?? Number.NaN),
  }));
  const shown = (row: Readonly<Record<string, number>>, i: number) =>
    Object.entries(row).map(([key, value]) => [
      key,
      i === 0 ? value : `${value} (${(value / (figures[0]?.[key] ?? Number.NaN)).toFixed(2)})`,
    ]);
  console.log(`\nStart with ${what}`);
  console.table(
    trees.map(({ name }, i) => ({ "": name, ...Object.fromEntries(shown(figures[i] ?? {}, i)) })),
  );
}

/** Measures the CPU of a few starts beside those of Node with an empty program. */
export async function benchStarts(): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const [what, config] of Object.entries(CONFIGS)) {
    const [bare, own]: [number[], number[]] = [[], []];
    for (let start = 0; start < FEW_STARTS; start += 1) {
      const { stderr } = spawnSync(process.execPath, ["--import", PRINT_CPU, "-e", ""], { encoding: "utf8" });
      bare.push(Number(/^cpu (\d+)/m.exec(stderr)?.[1]) / 1_000);
      const jobgate = await startJobgate({ from: "build", config });
      own.push(cpuMilliseconds(jobgate.pid));
      await jobgate.stop();
    }
    figures.push({
      name: `CPU of a start with ${what}, of bare Node`,
      ratio: median(own) / median(bare),
      better: "lower",
    });
  }
  return figures;
}

async function megabytesLater(tree: Tree, config: string): Promise<number> {
  const jobgate = await startJobgate({ from: sourceOf(tree), config });
  await sleep(LATER_MS);
  const megabytes = residentMegabytes(jobgate.pid);
  await jobgate.stop();
  return megabytes;
}

/** Prints the CPU time of a process when it ends. */
const PRINT_CPU =
  "data:text/javascript,process.on('exit',()=>console.error('cpu',process.cpuUsage().user+process.cpuUsage().system))";

/** Measures `jobgate check` without a file. */
function benchCheck(trees: readonly Tree[]): void {
  const cpuMs = trees.map((): number[] => []);
  for (let start = 0; start < STARTS; start += 1) {
    for (const [i, tree] of trees.entries()) {
      const args = ["--import", PRINT_CPU, ...jobgateProgram(sourceOf(tree)), "check", "-c", "none.toml"];
      const { stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
      cpuMs[i]?.push(Number(/^cpu (\d+)/m.exec(stderr)?.[1]) / 1_000);
    }
  }
  console.log("\njobgate check");
  console.table(trees.map(({ name }, i) => ({ "": name, "CPU ms": median(cpuMs[i]) })));
}

function sourceOf({ folder }: Tree): ProgramSource {
  return folder === undefined ? "build" : { builtIn: folder };
}

function median(values: readonly number[] = []): number {
  return Math.round(percentile([...values], 0.5));
}

/** Returns the CPU time of a process so far; NaN without /proc. */
function cpuMilliseconds(pid: number): number {
  try {
    const [user, system] = readFileSync(`/proc/${pid}/stat`, "utf8").split(" ").slice(13, 15);
    return (Number(user) + Number(system)) * TICK_MS;
  } catch {
    return Number.NaN;
  }
}

/** Returns NaN without /proc. */
function residentMegabytes(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
  } catch {
    return Number.NaN;
  }
}
