import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import ts from "typescript";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);
/** Inside the package, so that it resolves `jobgate` by name, as a program that depends on it does. */
let folder: string;
let documented: string;

beforeAll(async () => {
  folder = await mkdtemp(`${ROOT}dist/embedding-`);
  documented = /```ts\n([\s\S]*?)```/.exec(await readFile(`${ROOT}docs/embedding.md`, "utf8"))?.[1] ?? "";
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test("The package exports what docs/embedding.md names", async () => {
  const script = `
    const imported = await Promise.all(["config", "store", "webhooks", "x402", "delivery", "runner"].map((name) => import("jobgate/" + name)));
    console.log(Object.keys(Object.assign({}, ...imported)).sort().join(" "));`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: ROOT });
  expect(stdout.trim().split(" ")).toEqual([
    "Fail",
    "GatewayError",
    "LocalFacilitator",
    "Retry",
    "RunnerError",
    "RunnerServer",
    "WebhookGateway",
    "X402Gateway",
    "afterReload",
    "changesThatNeedRestart",
    "jobKeyText",
    "json",
    "loadConfig",
    "mistakeText",
    "openStore",
    "run",
  ]);
});

test("Types of the API need no package but the dependencies", async () => {
  const { dependencies } = JSON.parse(await readFile(`${ROOT}package.json`, "utf8"));
  const { fileNames, errors } = ts.parseJsonConfigFileContent({ include: ["dist/types/api"] }, ts.sys, ROOT);
  expect(errors).toEqual([]);
  const imported = new Set<string>();
  const visit = async (file: string, seen: Set<string>): Promise<void> => {
    if (seen.has(file)) return;
    seen.add(file);
    const { importedFiles } = ts.preProcessFile(await readFile(file, "utf8"));
    for (const { fileName } of importedFiles) {
      if (fileName.startsWith("."))
        await visit(join(dirname(file), fileName.replace(/\.ts$/, ".d.ts")), seen);
      else if (!fileName.startsWith("node:")) imported.add(/^(?:@[^/]+\/)?[^/]+/.exec(fileName)?.[0] ?? "");
    }
  };
  const seen = new Set<string>();
  for (const file of fileNames) await visit(file, seen);
  expect(seen.size).toBeGreaterThan(fileNames.length);
  expect([...imported].filter((name) => !(name in dependencies))).toEqual([]);
});

test("The program in docs/embedding.md accepts a webhook and stops on SIGTERM", async () => {
  await writeFile(
    `${folder}/jobgate.toml`,
    `service_id = 1
[store]
url = "sqlite:jobs.db"
[runner]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/alerts"
job_id = 30
`,
  );
  const javascript = ts.transpileModule(documented, {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 },
  });
  await writeFile(`${folder}/program.mjs`, javascript.outputText);
  const program = spawn(process.execPath, ["program.mjs"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(program, "exit");
  try {
    let address: string | undefined;
    for await (const line of createInterface(program.stdout)) {
      address = /^webhooks on (\S+),/.exec(line)?.[1];
      if (address !== undefined) break;
    }
    const answer = await fetch(`http://${address}/hooks/alerts`, { method: "POST", body: "x" });
    expect(answer.status).toBe(202);
    expect(await answer.json()).toEqual({ status: "accepted", job_id: 30, call_id: 1 });
    program.stdout.resume();
    program.kill("SIGTERM");
    expect(await exited).toEqual([0, null]);
  } finally {
    program.kill("SIGKILL");
  }
});
