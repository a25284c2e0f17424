import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { startTree } from "./gateway.ts";
import { percentile } from "./load.ts";
import type { Tree } from "./trees.ts";

const STARTS = 5;
/** Time after a start in which it collects its garbage. */
const IDLE_MS = 3_000;

/** Measures the time until all listeners are open, and the memory of an idle gateway. */
export async function benchStart(trees: readonly Tree[]): Promise<void> {
  const readyMs = trees.map((): number[] => []);
  const residentMb = trees.map((): number[] => []);
  for (let start = 0; start < STARTS; start += 1) {
    for (const [i, tree] of trees.entries()) {
      const startedAt = performance.now();
      const { jobgate } = await startTree(tree);
      readyMs[i]?.push(performance.now() - startedAt);
      await sleep(IDLE_MS);
      residentMb[i]?.push(residentMegabytes(jobgate.pid));
      await jobgate.stop();
    }
  }
  console.log("\nStart");
  console.table(
    trees.map(({ name }, i) => ({
      "": name,
      "ready after ms": Math.round(percentile(readyMs[i] ?? [], 0.5)),
      "idle MB": Math.round(percentile(residentMb[i] ?? [], 0.5)),
    })),
  );
}

/** Returns NaN without /proc. */
function residentMegabytes(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
  } catch {
    return Number.NaN;
  }
}
