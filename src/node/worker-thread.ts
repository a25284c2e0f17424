import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { Worker, type WorkerOptions } from "node:worker_threads";

/** Worker modules of a checkout as JavaScript, by URL. */
const bundles = new Map<string, string>();

/**
 * Starts a worker thread on the module called `name` beside the caller: its `.js` in a build, its `.ts` in a checkout.
 * @param callerUrl the caller's `import.meta.url`
 */
export function startWorkerThread(name: string, callerUrl: string, options: WorkerOptions): Worker {
  if (!callerUrl.endsWith(".ts")) return new Worker(new URL(`./${name}.js`, callerUrl), options);
  const url = new URL(`./${name}.ts`, callerUrl).href;
  const code = bundles.get(url) ?? bundle(url);
  bundles.set(url, code);
  return new Worker(code, { ...options, eval: true });
}

/** Bundles a TypeScript module once: registering a TypeScript loader in each thread takes ten times as long. */
function bundle(url: string): string {
  const { buildSync } = createRequire(import.meta.url)("esbuild") as typeof import("esbuild");
  const { outputFiles } = buildSync({
    entryPoints: [fileURLToPath(url)],
    write: false,
    bundle: true,
    packages: "external",
    // An import in code that is not a file is relative to the working directory, but a require is not.
    supported: { "dynamic-import": false },
    platform: "node",
    define: { "import.meta.url": JSON.stringify(url) },
    banner: { js: `require = require("node:module").createRequire(${JSON.stringify(url)});` },
  });
  return outputFiles[0]?.text ?? "";
}
