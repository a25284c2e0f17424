import { fileURLToPath } from "node:url";
import { Worker, type WorkerOptions } from "node:worker_threads";

/**
 * Starts a worker thread on the module called `name` beside the caller: its `.js` in a build, its `.ts` in a
 * checkout, where each thread must register the TypeScript loader anew.
 * @param callerUrl the caller's `import.meta.url`
 */
export function startWorkerThread(name: string, callerUrl: string, options: WorkerOptions): Worker {
  if (!callerUrl.endsWith(".ts")) return new Worker(new URL(`./${name}.js`, callerUrl), options);
  const loader = JSON.stringify(fileURLToPath(import.meta.resolve("tsx/cjs/api")));
  const module = JSON.stringify(fileURLToPath(new URL(`./${name}.ts`, callerUrl)));
  return new Worker(`require(${loader}).register(); require(${module});`, { ...options, eval: true });
}
