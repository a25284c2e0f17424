import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { text } from "node:stream/consumers";
import packageJson from "../package.json" with { type: "json" };

/*
 * Runs the `check:…` scripts of package.json, as many at a time as there are cores, and prints what each has printed when it
 * has ended. Run by `npm run check`.
 */

/** Options of Node for short programs with large heaps: a larger space for new objects saves a twelfth of the CPU. */
const NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ""} --max-semi-space-size=64`;

const left = Object.keys(packageJson.scripts).filter((name) => name.startsWith("check:"));

async function runScript(name: string): Promise<void> {
  const startedAt = performance.now();
  // One pipe for both streams, so that their lines keep their order.
  const child = spawn("sh", ["-c", `npm run --silent ${name} 2>&1`], {
    // The checks also run beside the full tests, which leave them little of the machine.
    env: { ...process.env, NODE_OPTIONS, JOBGATE_TEST_WAIT_MS: "300000" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const code = new Promise<number | null>((resolve) => void child.once("close", resolve));
  const output = await text(child.stdout);
  const isFine = (await code) === 0;
  const seconds = Math.round((performance.now() - startedAt) / 1_000);
  console.log(`${output}${isFine ? "ok" : "FAILED"}  ${name} (${seconds} s)`);
  if (!isFine) process.exitCode = 1;
}

await Promise.all(
  Array.from({ length: availableParallelism() }, async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) await runScript(name);
  }),
);
