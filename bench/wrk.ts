import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { LoadTarget } from "./load.ts";
import type { GeneratedLoad } from "./load-generator.ts";

const run = promisify(execFile);
const SCRIPT = fileURLToPath(new URL("wrk.lua", import.meta.url));
/** Longer than any answer may take: wrk counts a later one as an error. */
const TIMEOUT = "30s";

/** Reports whether wrk is installed. It needs half the CPU of a Node process for a request. */
export async function findWrk(): Promise<boolean> {
  try {
    await run("wrk", ["--version"]);
    return true;
  } catch (error) {
    // It prints its version and exits with 1.
    return (error as NodeJS.ErrnoException).code !== "ENOENT";
  }
}

/** Sends the requests with wrk, from one thread for each URL. Rejects after an answer with another status. */
export async function loadWithWrk(target: LoadTarget): Promise<GeneratedLoad> {
  const { urls, headers = {}, body, isUnique = false, status, connections, seconds } = target;
  const args = ["-t", urls.length, "-c", connections, "-d", seconds, "--timeout", TIMEOUT, "-s", SCRIPT];
  const env = {
    ...process.env,
    BENCH_BODY: body,
    BENCH_HEADERS: Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}\n`)
      .join(""),
    BENCH_IS_UNIQUE: String(isUnique),
    BENCH_SERVERS: urls.map((url) => new URL(url).host).join(" "),
    BENCH_STATUS: String(status),
  };
  const { stdout } = await run("wrk", [...args.map(String), urls[0] ?? ""], { env });
  const { errors, ...load } = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
  if (errors > 0)
    throw new Error(`${errors} of ${load.requests} requests failed or were not answered ${status}`);
  return load as GeneratedLoad;
}
