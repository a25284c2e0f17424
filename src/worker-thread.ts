import { Worker, type WorkerOptions } from "node:worker_threads";

/**
 * Starts a worker thread on the module called `name` beside the caller: its `.js` in a build, its `.ts` in a
 * checkout, which the TypeScript loader has to be told of in each thread anew.
 * @param callerUrl the caller's `import.meta.url`
 */
export function startWorkerThread(name: string, callerUrl: string, options: WorkerOptions): Worker {
  if (!callerUrl.endsWith(".ts")) return new Worker(new URL(`./${name}.js`, callerUrl), options);
  const loader = JSON.stringify(import.meta.resolve("tsx/esm/api"));
  const module = JSON.stringify(new URL(`./${name}.ts`, callerUrl).href);
  const script = `import(${loader}).then(({ register }) => { register(); return import(${module}); })`;
  return new Worker(script, { ...options, eval: true });
}
