import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { transformSync } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Names on docs/embedding.md. */
const EXPORTS = [
  "Fail",
  "GatewayError",
  "LiveRates",
  "LocalFacilitator",
  "Retry",
  "RunnerError",
  "RunnerServer",
  "SeveralFacilitators",
  "WebhookGateway",
  "WebhookProducer",
  "X402Gateway",
  "X402Producer",
  "afterReload",
  "changesThatNeedRestart",
  "jobKeyText",
  "json",
  "loadConfig",
  "mistakeText",
  "openStore",
  "run",
  "workStream",
];
const run = promisify(execFile);
/** Inside the package, so that it resolves `jobgate` by name, as a program that depends on it does. */
let folder: string;
let documented: string;
let producers: string;

beforeAll(async () => {
  folder = await mkdtemp(`${ROOT}dist/embedding-`);
  const page = await readFile(`${ROOT}docs/embedding.md`, "utf8");
  [documented = "", producers = ""] = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(
    ([, code]) => code ?? "",
  );
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test("Types of the API need no package but the dependencies", async () => {
  const { dependencies } = JSON.parse(await readFile(`${ROOT}package.json`, "utf8"));
  const types = `${ROOT}dist/types`;
  const parts = await readdir(`${types}/parts`);
  const fileNames = [
    ...(await readdir(`${types}/api`)).map((name) => `${types}/api/${name}`),
    ...parts.map((part) => `${types}/parts/${part}/api.d.ts`).filter((path) => existsSync(path)),
  ];
  const imported = new Set<string>();
  const visit = async (file: string, seen: Set<string>): Promise<void> => {
    if (seen.has(file)) return;
    seen.add(file);
    const imports = (await readFile(file, "utf8")).matchAll(/\b(?:from |import\(|import )"([^"]+)"/g);
    for (const [, fileName = ""] of imports) {
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
  await writeFile(`${folder}/program.mjs`, javascriptOf(documented));
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

test("The package exports what docs/embedding.md names, and its producers make JobCalls that the store takes and runners get", async () => {
  await writeFile(`${folder}/producers.mjs`, javascriptOf(producers));
  const toml = `service_id = 7
[store]
url = "sqlite:${folder}/produced.db"
[runner]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/alerts"
name = "alerts"
job_id = 30
[x402]
bind_address = "127.0.0.1:0"
public_url = "http://127.0.0.1:8402"
facilitator_url = "http://127.0.0.1:9"
[[x402.accepted_tokens]]
network = "base-sepolia"
token = "USDC"
pay_to = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
rate_per_native_unit = "3200"
`;
  const script = `
    import { loadConfig } from "jobgate/config";
    import { openStore } from "jobgate/store";
    import { RunnerServer } from "jobgate/delivery";
    import { run } from "jobgate/runner";
    import { workStream } from "jobgate/work-stream";
    import { pino } from "pino";
    import { createIntake } from "./producers.mjs";
    const { config } = await loadConfig({ path: "jobgate.toml", toml: ${JSON.stringify(toml)}, env: {} });
    const logger = pino({ level: "silent" });
    const store = await openStore(config.store, logger);
    const server = new RunnerServer({ config: config.runner, workQueue: store, status: () => store.status(), streams: () => workStream, logger });
    await server.start();
    const intake = createIntake(config, store);
    await intake.acceptEvent(Buffer.from("event"));
    await intake.acceptPaid(Buffer.from("paid"), "0x" + "ab".repeat(20), "cd".repeat(32));
    const seen = [];
    const stop = new AbortController();
    const handle = ({ body, jobId, metadata }) => {
      seen.push([body.toString(), String(jobId), metadata]);
      if (seen.length === 2) stop.abort();
    };
    await run(handle, { address: server.address, signal: stop.signal, concurrency: 1, logger });
    await server.stop();
    await store.close();
    const modules = ["config", "store", "webhooks", "x402", "local-facilitator", "failover", "rates", "delivery", "work-stream", "runner"];
    const imported = await Promise.all(modules.map((name) => import("jobgate/" + name)));
    console.log(JSON.stringify({ seen, names: Object.keys(Object.assign({}, ...imported)).sort() }));`;
  await writeFile(`${folder}/produce.mjs`, script);
  const { stdout } = await run(process.execPath, ["produce.mjs"], { cwd: folder, timeout: 30_000 });
  const { seen, names } = JSON.parse(stdout);
  expect(names).toEqual(EXPORTS);
  expect(seen).toEqual([
    [
      "event",
      "30",
      {
        "X-WEBHOOK-ORIGIN": "webhook",
        "X-WEBHOOK-PATH": "/hooks/alerts",
        "X-WEBHOOK-NAME": "alerts",
        "X-CHAIN-SERVICE-ID": "7",
        "X-CHAIN-CALL-ID": "1",
      },
    ],
    [
      "paid",
      "0",
      {
        "X-X402-ORIGIN": "x402",
        "X-X402-QUOTE-DIGEST": "cd".repeat(32),
        "X-X402-PAYMENT-NETWORK": "eip155:84532",
        "X-X402-PAYMENT-TOKEN": "USDC",
        "X-X402-PAYMENT-SCHEME": "exact",
        "X-X402-PAYMENT-AMOUNT": "10000",
        "X-X402-PAYER": `0x${"ab".repeat(20)}`,
        "X-CHAIN-SERVICE-ID": "7",
        "X-CHAIN-CALL-ID": "2",
      },
    ],
  ]);
});

function javascriptOf(code: string): string {
  return transformSync(code, { loader: "ts" }).code;
}
