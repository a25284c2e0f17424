import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { processEnded, spawnTethered } from "../src/node/tethered-process.ts";
import { eventually } from "./helpers/eventually.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** More than an installation takes, and far less than with everything that is bundled. */
const MAX_INSTALLED_BYTES = 80 * 1024 * 1024;

/** Folder of somebody who has installed the packed package, without development dependencies. */
let folder: string;

async function command(
  name: string,
  args: readonly string[],
  options: { cwd?: string; input?: string; env?: Record<string, string> } = {},
) {
  const running = promisify(execFile)(name, args, {
    cwd: options.cwd ?? folder,
    timeout: 600_000,
    env: { ...process.env, ...options.env },
  });
  running.child.stdin?.end(options.input ?? "");
  return (await running).stdout;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-installed-"));
  const quiet = ["--loglevel=error", "--no-audit", "--no-fund"];
  await command("npm", ["pack", "--ignore-scripts", "--pack-destination", folder, ...quiet], { cwd: ROOT });
  const [tarball = ""] = (await readdir(folder)).filter((file) => file.endsWith(".tgz"));
  await writeFile(join(folder, "package.json"), '{ "name": "shop", "private": true, "type": "module" }\n');
  await command("npm", ["install", "--omit=dev", "--prefer-offline", ...quiet, `./${tarball}`]);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Starts a command of the installed package, and waits for a line that it prints. */
async function start(program: string, args: readonly string[], line: RegExp) {
  const env = { ...process.env, OTEL_TRACES_EXPORTER: "console" };
  const child = spawnTethered({ command: program, args, cwd: folder, env });
  // npx passes SIGTERM on. SIGKILL would leave its program alone.
  onTestFinished(async () => {
    child.kill("SIGTERM");
    await processEnded(child);
  });
  child.stderr.resume();
  for await (const printed of createInterface({ input: child.stdout })) {
    if (!line.test(printed)) continue;
    child.stdout.resume();
    return { child, printed };
  }
  throw new Error(`${program} ${args.join(" ")} ended early`);
}

async function bytesOf(path: string): Promise<number> {
  const sizes = (await readdir(path, { recursive: true, withFileTypes: true })).map(async (entry) =>
    entry.isFile() ? (await stat(join(entry.parentPath, entry.name))).size : 0,
  );
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

test("Is small, and loads each of its modules", async () => {
  expect(await bytesOf(join(folder, "node_modules"))).toBeLessThan(MAX_INSTALLED_BYTES);
  const names = ["config", "delivery", "runner", "store", "webhooks", "x402"];
  const script = `await Promise.all(${JSON.stringify(names)}.map((name) => import("jobgate/" + name)));`;
  await command("node", ["--input-type=module", "--eval", script]);
});

test("A configuration of init is served by npx, with traces, until npx is stopped, which leaves no process", async () => {
  const payee = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
  await command("npx", ["jobgate", "init", "--yes", "--pay-to", payee]);
  const file = join(folder, "jobgate.toml");
  const toml = await readFile(file, "utf8");
  await writeFile(file, toml.replaceAll(/"127\.0\.0\.1:\d+"/g, '"127.0.0.1:0"'));
  expect(await command("npx", ["jobgate", "check"])).toContain("jobgate.toml: ok");

  const { child, printed } = await start("npx", ["jobgate", "serve"], /^operator listening on/);
  const health = `http://${printed.split(" ").at(-1)}/healthz`;
  expect((await fetch(health)).status).toBe(200);
  child.kill("SIGTERM");
  await processEnded(child);
  await eventually(() => expect(fetch(health)).rejects.toThrow("fetch failed"));
});

test("The runner of its README does a job that its own command pays for", async () => {
  // dev needs anvil, which is no dependency.
  await symlink(join(ROOT, "node_modules/@foundry-rs"), join(folder, "node_modules/@foundry-rs"));
  const readme = await readFile(join(folder, "node_modules/jobgate/clients/node/README.md"), "utf8");
  await writeFile(join(folder, "runner.mjs"), /```js\n([^`]*)```/.exec(readme)?.[1] ?? "");
  const { printed } = await start("npx", ["jobgate", "dev", "--free-ports", "--no-runner", "--json"], /^\{/);
  const { job_url = "", runner_address, payer_key = "" } = JSON.parse(printed) as Record<string, string>;
  const env = { ...process.env, JOBGATE_RUNNER: runner_address };
  const runner = spawnTethered({ command: process.execPath, args: ["runner.mjs"], cwd: folder, env });
  onTestFinished(() => void runner.kill("SIGKILL"));
  runner.stderr.resume();
  runner.stdout.resume();
  const purchase = { input: "hello", env: { JOBGATE_PAYER_KEY: payer_key } };
  expect(await command("npx", ["jobgate", "pay", job_url, "--body", "-"], purchase)).toContain("HELLO");
  runner.kill("SIGTERM");
  if (runner.exitCode === null) await once(runner, "exit");
  expect(runner.exitCode).toBe(0);
});
