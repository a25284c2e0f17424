import { once } from "node:events";
import { cp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import { loadConfig } from "../../src/commands/serve.ts";
import { openLog } from "../../src/log/log.ts";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { TOKEN, X402 } from "../config/config-folder.ts";
import { ROOT } from "../helpers/bundle.ts";
import { eventually } from "../helpers/eventually.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { jobgateProgram } from "../helpers/jobgate-program.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { runHereWith } from "./operator-commands.ts";

const config = (path: string) => `service_id = 1
[runner]
bind_address = "127.0.0.1:0"
drain_secs = 0
[operator]
bind_address = "127.0.0.1:0"
token = "env:TOKEN"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "${path}"
job_id = 3
`;

const sale = (
  serviceId: number,
  price: string,
) => `${config("/hooks/a").replace("service_id = 1", `service_id = ${serviceId}`)}
${X402}bind_address = "127.0.0.1:0"
${TOKEN}currency = "USD"
[[jobs]]
job_index = 0
mode = "public_paid"
price = "${price}"
`;

describe("jobgate serve", () => {
  const env = { TOKEN: "hunter2" };
  const jobgate = startBeforeAll(() => startJobgate({ config: sale(1, "$0.01"), env }));

  const post = async (path: string) =>
    (await fetch(jobgate.webhooksUrl + path, { method: "POST", body: "x" })).status;
  const logged = (text: string) =>
    eventually(() => expect(jobgate.logs.some((line) => line.includes(text))).toBe(true));
  /** Starts another one, which cannot start, on the same files. */
  const serveAgain = () => runHereWith(["serve"], { env, folder: jobgate.folder });

  test("Prints the address of each listener, and no secret", async () => {
    expect([...jobgate.listeners.keys()].sort()).toEqual(["operator", "runner", "webhooks", "x402"]);
    expect([...jobgate.listeners.values()].every((address) => /^127\.0\.0\.1:[1-9]\d*$/.test(address))).toBe(
      true,
    );
    expect(await post("/hooks/a")).toBe(202);
    expect(jobgate.logs.join("\n")).not.toContain("hunter2");
  });

  test("Is refused on a store that another serve has open, with that one's pid; check --online is not", async () => {
    const again = await serveAgain();
    expect(again).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`in use by process ${jobgate.pid}`),
    });
    expect(await post("/hooks/a")).toBe(202);
    const files = { "webhooks.toml": config("/hooks/a") };
    const check = ["check", "--online", "-c", "webhooks.toml"];
    expect(await runHereWith(check, { env, files, folder: jobgate.folder })).toMatchObject({ code: 0 });
  });

  test("SIGHUP applies new endpoints and prices, leaves jobs with the service of the start; a file with a mistake changes nothing", async () => {
    await jobgate.reload(sale(2, "$0.02").replace("/hooks/a", "/hooks/b"));
    await logged("configuration reloaded");
    expect(jobgate.logs.join("\n")).toContain('"needRestart":["service_id"]');
    expect([await post("/hooks/a"), await post("/hooks/b")]).toEqual([404, 202]);
    const priceIn = async (service: number) =>
      (await fetch(`${jobgate.x402Url}/x402/jobs/${service}/0/price`)).json();
    expect(await priceIn(1)).toMatchObject({ price: "$0.02" });
    expect(await priceIn(2)).toMatchObject({ code: "job_not_found" });

    await jobgate.reload(`${config("/hooks/c")}jobid = 3\n`);
    await logged("reload refused");
    expect(jobgate.logs.join("\n")).toContain("webhooks.endpoints[0].jobid");
    expect([await post("/hooks/b"), await post("/hooks/c")]).toEqual([202, 404]);

    await jobgate.reload(sale(1, "$0.02").replace("drain_secs = 0", "drain_secs = 1"));
    await logged('"needRestart":["runner.drain_secs"]');
    await eventually(async () => expect(await post("/hooks/a")).toBe(202));
  });

  test("Answers 503 once its database is deleted, says why on /readyz, ends at SIGTERM although a silent peer stays connected, and does not start anew", async () => {
    await rm(join(jobgate.folder, "jobgate.db"));
    expect(await post("/hooks/a")).toBe(503);
    const ready = await fetch(`${jobgate.operatorUrl}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([
      503,
      { ready: false, reason: expect.stringMatching(/jobgate\.db was deleted or moved while in use/) },
    ]);
    await logged("the store is gone");
    const { hostname, port } = new URL(`http://${jobgate.runnerAddress}`);
    const silent = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    onTestFinished(() => void silent.destroy());
    await once(silent, "connect");
    jobgate.kill("SIGTERM");
    expect(await jobgate.exited).toEqual({ code: 0, signal: null });
    const again = await serveAgain();
    expect(again).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/jobgate\.db is missing or empty/),
    });
  });
});

test("No line of the log has a secret of the configuration that serve has read", async () => {
  const folder = await testFolder();
  const path = join(folder, "jobgate.toml");
  await writeFile(path, config("/hooks/a").replace("env:TOKEN", "hunter2-hunter2"));
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const log = openLog({ level: "trace", format: "json", destination });
  await loadConfig({ config: path }, log);
  log.logger.warn("is hunter2-hunter2 right?");
  expect(lines.at(-1)).toMatch(/"msg":"is .+ right\?"/);
  expect(lines.join("")).not.toContain("hunter2");
});

test("A signal ends the wait for a Postgres that is not there", async () => {
  const folder = await testFolder();
  await writeFile(join(folder, "jobgate.toml"), '[store]\nurl = "postgres://u:p@127.0.0.1:1/jobgate"\n');
  const child = spawnTethered({
    command: process.execPath,
    args: [...jobgateProgram(), "serve"],
    env: process.env,
    cwd: folder,
  });
  let printed = "";
  child.stderr.on("data", (chunk: Buffer) => {
    printed += chunk.toString();
  });
  await eventually(() => expect(printed).toContain("waiting for Postgres"));
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});

test("A gateway whose stdout no process reads runs, and SIGINT drains it", async () => {
  const silent = await listenHttp({ handler: () => undefined });
  onTestFinished(() => silent.stop());
  const source = `rate_source = { http = { url = "${silent.url}/rate", pointer = "/rate", max_age_secs = 60 } }`;
  const token = TOKEN.replace(/rate_per_native_unit = .*/, source);
  const folder = await testFolder();
  await writeFile(
    join(folder, "jobgate.toml"),
    `[runner]\nbind_address = "127.0.0.1:0"\n[operator]\nbind_address = "unix:operator.sock"\n${X402}bind_address = "127.0.0.1:0"\n${token}`,
  );
  const child = spawnTethered({
    command: process.execPath,
    args: [...jobgateProgram(), "serve"],
    cwd: folder,
  });
  child.stdout.destroy();
  let log = "";
  child.stderr.on("data", (text) => {
    log += text;
  });
  const ended = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  await eventually(async () => {
    const [answer] = await once(
      get({ socketPath: join(folder, "operator.sock"), path: "/healthz" }),
      "response",
    );
    expect(answer.resume().statusCode).toBe(200);
  });
  child.kill("SIGINT");
  expect(await ended).toEqual([0, null]);
  expect(log).toContain('"msg":"stopped"');
});

test("Serve names the missing pages of an incomplete installation before it makes a store", async () => {
  const installed = await testFolder();
  const [program = ""] = jobgateProgram();
  await cp(dirname(program), join(installed, "src/program"), { recursive: true });
  await symlink(join(ROOT, "package.json"), join(installed, "package.json"));
  await writeFile(join(installed, "jobgate.toml"), "");
  const child = spawnTethered({
    command: process.execPath,
    args: [join(installed, "src/program/main.js"), "serve"],
    cwd: installed,
  });
  const [stderr, ended] = await Promise.all([text(child.stderr), once(child, "exit")]);
  expect(ended).toEqual([1, null]);
  expect(stderr).toMatch(/The pages are missing: expected them in .*dist\/page\/\. Run `npm run build`/);
  expect(await readdir(installed)).not.toContain("jobgate.db");
});

describe("jobgate serve that cannot start", () => {
  test("Prints the mistakes of a configuration to stderr and exits with 1, before it listens", async () => {
    const { code, stdout, stderr } = await runHereWith(["serve"], {
      files: { "jobgate.toml": "a = 1\nb = 2\n" },
    });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^jobgate\.toml:1: a: .*\njobgate\.toml:2: b: .*\n$/);
  });

  // The gRPC server of runners listens in its own way, the HTTP servers in the same.
  test.each(["runner", "webhooks"])(
    "Names the key %s.bind_address, its address and what to do if the port is in use",
    async (table) => {
      const taken = await listenHttp({ handler: () => undefined });
      const address = new URL(taken.url).host;
      const toml = ["runner", "webhooks"]
        .map((name) => `[${name}]\nbind_address = "${name === table ? address : "127.0.0.1:0"}"\n`)
        .join("");
      const { code, stdout, stderr } = await runHereWith(["serve"], {
        files: { "jobgate.toml": `service_id = 1\n${toml}` },
      });
      await taken.stop();
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr.trimEnd().split("\n").at(-1)).toBe(
        `${table}.bind_address: ${address} is in use by another process; stop that process, or set another port`,
      );
    },
  );

  test("Exits with 1 and the reason as the last line if the store cannot be opened", async () => {
    const toml =
      '[store]\nurl = "sqlite:/nonexistent/folder/jobgate.db"\n[runner]\nbind_address = "127.0.0.1:0"\n';
    const { code, stdout, stderr } = await runHereWith(["serve"], {
      files: { "jobgate.toml": `service_id = 1\n${toml}` },
    });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    const lines = stderr.trimEnd().split("\n");
    expect(lines.filter((line) => line.startsWith("    at "))).toEqual([]);
    expect(lines.at(-1)).toMatch(/^[^{].*there is no folder \/nonexistent\/folder/);
  });
});
