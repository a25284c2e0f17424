import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { bundledScript } from "../helpers/bundle.ts";
import { until } from "../helpers/until.ts";

export interface RunnerProcess {
  /** The JobCalls that it holds: it never finishes any. */
  readonly callIds: string[];
  signal(name: NodeJS.Signals): void;
}

/** Starts a runner in a separate process, for one test. Resolves once it is subscribed. */
export async function spawnRunner(address: string): Promise<RunnerProcess> {
  const script = fileURLToPath(new URL("./runner-process.ts", import.meta.url));
  const args = [bundledScript(`import "${script}";`), address];
  const child = spawnTethered({ command: process.execPath, args });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await processEnded(child);
  });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  await until(() => lines.includes("ready"));
  return {
    get callIds() {
      return lines.filter((line) => /^\d+$/.test(line));
    },
    signal: (name) => void child.kill(name),
  };
}
