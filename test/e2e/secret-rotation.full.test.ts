import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../helpers/eventually.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { makeRunnerClient } from "../helpers/runner-client.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { startRun } from "../runner/start-run.ts";

/** The three secrets that clients send, as a list of files. */
const configOf = (files: readonly string[]) => {
  const list = (kind: string) => `[${files.map((file) => `"file:${kind}-${file}"`).join(", ")}]`;
  return `service_id = 1
[runner]
bind_address = "127.0.0.1:0"
token = ${list("runner")}
[operator]
bind_address = "127.0.0.1:0"
token = ${list("operator")}
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 1
auth = "bearer"
secrets = ${list("webhook")}
`;
};

const secretIn = (kind: string, file: string) => `secret-of-${kind}s-${file}`;

/** Repeats a request until the test ends, each time with the current secret. */
function repeat(request: () => Promise<unknown>) {
  const answers: unknown[] = [];
  let isOver = false;
  const ended = (async () => {
    while (!isOver) answers.push(await request().catch((error: unknown) => error));
  })();
  return {
    answers,
    /** Waits for requests that begin from now on. */
    async more(count: number) {
      const before = answers.length + 1;
      await eventually(() => expect(answers.length).toBeGreaterThanOrEqual(before + count));
    },
    async stop() {
      isOver = true;
      await ended;
    },
  };
}

function clientsOf({ webhooksUrl, operatorUrl, runnerAddress }: Jobgate) {
  const authorization = (kind: string, file: string) => ({ authorization: `Bearer ${secretIn(kind, file)}` });
  return {
    async webhook(file: string) {
      const headers = authorization("webhook", file);
      return (await fetch(`${webhooksUrl}/hooks/a`, { method: "POST", body: "x", headers })).status;
    },
    async operator(file: string) {
      return (await fetch(`${operatorUrl}/metrics`, { headers: authorization("operator", file) })).status;
    },
    /** Acks an unknown lease on a new connection: the code tells whether the token was accepted. */
    async runner(file: string) {
      const client = makeRunnerClient({ address: runnerAddress, token: secretIn("runner", file) });
      const code = await client.ack({ acks: [{ callId: 1n << 40n, leaseToken: "none" }] }).then(
        () => status.OK,
        (error: { code: number }) => error.code,
      );
      client.close();
      return code === status.UNAUTHENTICATED ? 401 : 200;
    },
  };
}

test("Tokens and webhook secrets are rotated under load by SIGHUP, and no request is refused", async () => {
  const folder = await testFolder();
  const write = (file: string) =>
    Promise.all(
      ["runner", "operator", "webhook"].map((kind) =>
        writeFile(join(folder, `${kind}-${file}`), `${secretIn(kind, file)}\n`, { mode: 0o600 }),
      ),
    );
  await write("first");
  const jobgate = await startJobgate({ config: configOf(["first"]), folder });
  onTestFinished(async () => void (await jobgate.stop()));
  const clients = clientsOf(jobgate);
  let reloads = 0;
  const reload = async (files: readonly string[]) => {
    await jobgate.reload(configOf(files));
    reloads += 1;
    await eventually(() =>
      expect(jobgate.logs.filter((line) => line.includes("configuration reloaded"))).toHaveLength(reloads),
    );
  };

  let current = "first";
  const loads = (["webhook", "webhook", "webhook", "operator", "runner"] as const).map((kind) =>
    repeat(() => clients[kind](current)),
  );
  const more = () => Promise.all(loads.map((load) => load.more(5)));
  const done = new Set<number>();
  const startRunner = (file: string) =>
    startRun(({ callId }) => void done.add(callId), {
      address: jobgate.runnerAddress,
      token: secretIn("runner", file),
    });
  let runner = startRunner("first");
  await more();

  for (const next of ["second", "third"]) {
    await write(next);
    await reload([next, current]);
    await more();
    const previous = { file: current, runner };
    current = next;
    runner = startRunner(next);
    await previous.runner.stop();
    await more();
    await reload([next]);
    for (const send of Object.values(clients)) expect(await send(previous.file)).toBe(401);
    await more();
  }

  await writeFile(join(folder, "runner-third"), "");
  await jobgate.reload(configOf(["third"]).replace("/hooks/a", "/hooks/b"));
  await eventually(() => expect(jobgate.logs.join("\n")).toContain("reload refused, nothing was changed"));
  expect(jobgate.logs.join("\n")).toMatch(/runner\.token\[0\]: names \/.*\/runner-third, which is empty/);
  await more();

  for (const load of loads) await load.stop();
  const [hooks, others] = [loads.slice(0, 3), loads.slice(3)];
  expect(new Set(hooks.flatMap(({ answers }) => answers))).toEqual(new Set([202]));
  expect(new Set(others.flatMap(({ answers }) => answers))).toEqual(new Set([200]));
  const accepted = hooks.reduce((sum, { answers }) => sum + answers.length, 0);
  await eventually(() => expect(done.size).toBe(accepted));
  await runner.stop();
  expect(jobgate.logs.join("\n")).not.toContain("secret-of");
});

test("User and password of Postgres are rotated by SIGHUP: new connections use them", async () => {
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const database = await postgres.createDatabase();
  for (const role of ["first", "second"])
    await postgres.query(database, `CREATE ROLE ${role} SUPERUSER LOGIN`);
  const folder = await testFolder();
  const write = (role: string) =>
    writeFile(join(folder, "postgres-url"), database.replace(/\/\/[^@]*@/, `//${role}:secret@`));
  await write("first");
  await writeFile(join(folder, "webhook-only"), secretIn("webhook", "only"));
  const config = `${configOf(["only"]).replace(/^token = .*$/gm, "")}[store]\nurl = "file:postgres-url"\n`;
  const jobgate = await startJobgate({ config, folder });
  onTestFinished(async () => void (await jobgate.stop()));
  const post = () => clientsOf(jobgate).webhook("only");
  expect(await post()).toBe(202);

  await write("second");
  await jobgate.reload(config);
  await eventually(() => expect(jobgate.logs.join("\n")).toContain("configuration reloaded"));
  expect(jobgate.logs.join("\n")).not.toContain("next start");
  expect(await post()).toBe(202);
  const ofUser = (user: string) =>
    postgres.query(
      database,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${user}'`,
    );
  expect(await ofUser("first")).not.toEqual([]);
  await eventually(async () => {
    expect(await post()).toBe(202);
    expect(await ofUser("first")).toEqual([]);
  });

  // The connections that are open hide a wrong user until they break.
  const reloads = () => jobgate.logs.filter((line) => line.includes("configuration reloaded")).length;
  await write("nobody");
  await jobgate.reload(config);
  await eventually(() => expect(reloads()).toBe(2));
  await ofUser("second");
  await eventually(async () => expect(await post()).toBe(503));
  await write("second");
  await jobgate.reload(config.replace("/hooks/a", "/hooks/b"));
  await eventually(() => expect(reloads()).toBe(3));
  expect(await post()).toBe(404);
});
