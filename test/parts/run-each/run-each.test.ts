import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test, vi } from "vitest";
import { runProgram } from "../../../src/commands/program.ts";
import { processEnded, spawnTethered } from "../../../src/node/tethered-process.ts";
import type { Claimed } from "../../../src/store/contract/work-queue.ts";
import { runJobgate } from "../../commands/run-jobgate.ts";
import { jobgateProgram } from "../../helpers/jobgate-program.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { until } from "../../helpers/until.ts";
import { startWorkDelivery } from "../work-stream/harness.ts";

/** Arguments that run the body of each JobCall as a script, with one argument that a shell would expand. */
const SCRIPTS = ["--", "sh", "-s", "$(date)"];

/** Starts `jobgate run-each` as a process, for one test. Resolves once it is connected. */
async function startRunEach(address: string, args: readonly string[], env: Record<string, string> = {}) {
  const child = spawnTethered({
    command: process.execPath,
    args: [...jobgateProgram(), "run-each", "--runner", address, ...args],
    env: { PATH: process.env.PATH, ...env },
  });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await processEnded(child);
  });
  const lines: string[] = [];
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  createInterface({ input: child.stderr }).on("line", (line) => lines.push(line));
  const connected = () => lines.filter((line) => line.includes('"connected to ')).length;
  await until(() => connected() > 0);
  return { child, lines, exited, connected };
}

/** Starts a runner listener on a real store and records calls to the store. */
async function startWatched(config: Parameters<typeof startWorkDelivery>[0] = {}) {
  const delivery = await startWorkDelivery(config);
  const { store } = delivery;
  const spies = {
    claims: vi.spyOn(store, "claim"),
    acks: vi.spyOn(store, "ack"),
    retries: vi.spyOn(store, "retry"),
    fails: vi.spyOn(store, "fail"),
  };
  onTestFinished(() => {
    for (const spy of Object.values(spies)) spy.mockRestore();
  });
  const script = (body: string) => delivery.accept({ body: Buffer.from(body) });
  return { ...delivery, ...spies, script };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const readPid = async (path: string): Promise<number> =>
  Number(await readFile(path, "utf8").catch(() => "")) || 0;

test("The program's input is the body, byte for byte, and its output is the result", async () => {
  const { address, accept, acks } = await startWatched();
  await startRunEach(address, ["--content-type", "image/x-noise", "--", "cat"]);
  const body = Buffer.from([0, 255, 10, 13, 36, 40, ...Buffer.alloc(300_000, 7)]);
  const callId = await accept({ body });
  await until(() => acks.mock.calls.length === 1);
  const [lease, result] = acks.mock.calls[0] ?? [];
  expect(lease?.callId).toBe(callId);
  expect(result?.contentType).toBe("image/x-noise");
  expect(Buffer.from(result?.body ?? []).equals(body)).toBe(true);
});

test("Metadata and IDs become environment variables, tokens do not, and no shell expands the arguments", async () => {
  const { address, script, acks } = await startWatched({ tokens: ["hunter2"] });
  await startRunEach(address, SCRIPTS, {
    JOBGATE_RUNNER_TOKEN: "hunter2",
    JOBGATE_OPERATOR_TOKEN: "hunter3",
    X_CHAIN_CALLER: "0xforged",
    X_HTTP_CONTENT_TYPE: "forged",
    OTHER: "kept",
  });
  const callId = await script('env; echo "argument=$1"');
  await until(() => acks.mock.calls.length === 1);
  const printed = Buffer.from(acks.mock.calls[0]?.[1]?.body ?? []).toString();
  expect(printed.split("\n")).toEqual(
    expect.arrayContaining([
      ...["X_WEBHOOK_ORIGIN=webhook", "X_WEBHOOK_PATH=/hooks/test", "OTHER=kept", "argument=$(date)"],
      ...[`JOBGATE_CALL_ID=${callId}`, "JOBGATE_JOB_ID=7", "JOBGATE_SERVICE_ID=1", "JOBGATE_ATTEMPT=1"],
    ]),
  );
  expect(printed).not.toMatch(/hunter|forged|TOKEN/);
});

test("Exit code 0 acks, a code of --fail-on makes a dead letter, and any other retries with the last lines of stderr", async () => {
  const { address, script, acks, retries, fails, store } = await startWatched({ maxAttempts: 1 });
  const { lines } = await startRunEach(address, ["--concurrency", "4", "--fail-on", "65,3", ...SCRIPTS]);
  await script("exit 0");
  await script("echo too old >&2; exit 65");
  await script("exit 3");
  await script("seq 1 2000 >&2; exit 75");
  await script("exit 64");
  await script("kill -9 $$");
  await until(() => acks.mock.calls.length + retries.mock.calls.length + fails.mock.calls.length === 6);
  expect(acks.mock.calls).toHaveLength(1);
  expect(fails.mock.calls.map(([, reason]) => reason).sort()).toEqual([
    "exit code 3",
    "exit code 65: too old",
  ]);
  expect(retries.mock.calls.map(([, { reason }]) => reason).sort()).toEqual([
    "ended by SIGKILL",
    "exit code 64",
    `exit code 75: ${Array.from({ length: 10 }, (_, index) => 1991 + index).join("\n")}`,
  ]);
  expect(lines).toContain("too old");
  await until(async () => (await store.totals()).calls.dead === 5);
});

test("Accepts a result of 1 MiB; a larger one makes a dead letter with the reason", async () => {
  const { address, script, acks, fails } = await startWatched();
  await startRunEach(address, SCRIPTS);
  await script("head -c 1048576 /dev/zero");
  await script("head -c 1048577 /dev/zero; sleep 60");
  await until(() => fails.mock.calls.length === 1);
  expect(acks.mock.calls[0]?.[1]?.body).toHaveLength(1_048_576);
  expect(fails.mock.calls[0]?.[1]).toBe("printed more than 1048576 bytes, the maximum for a result");
});

test("Extends leases while programs run, and runs at most --concurrency at once", async () => {
  const { address, script, acks, claims, store } = await startWatched({ leaseMs: 5_000 });
  const extensions = vi.spyOn(store, "extend");
  onTestFinished(() => extensions.mockRestore());
  await startRunEach(address, ["--concurrency", "2", ...SCRIPTS]);
  const folder = await testFolder();
  const program = `echo start >>${folder}/log; until [ -e ${folder}/go ]; do sleep 0.05; done; echo end >>${folder}/log`;
  for (let i = 0; i < 4; i++) await script(program);
  // The other JobCalls are left to other runners.
  let mostLeased = 0;
  const watchUntil = (holds: () => boolean) =>
    until(async () => {
      mostLeased = Math.max(mostLeased, (await store.totals()).calls.leased);
      return holds();
    });
  await watchUntil(() => new Set(extensions.mock.calls.map(([{ callId }]) => callId)).size === 2);
  await writeFile(join(folder, "go"), "");
  await watchUntil(() => acks.mock.calls.length === 4);
  expect(mostLeased).toBe(2);
  const claimed = (
    await Promise.all(claims.mock.results.map(({ value }) => value as Promise<Claimed>))
  ).flatMap(({ calls }) => calls);
  expect(claimed.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1]);
  const notes = (await readFile(join(folder, "log"), "utf8")).trim().split("\n");
  const running = notes.map((_, index) => {
    const soFar = notes.slice(0, index + 1);
    return soFar.filter((note) => note === "start").length - soFar.filter((note) => note === "end").length;
  });
  expect(Math.max(...running)).toBe(2);
});

test("A lost lease kills the program and its children", async () => {
  const { address, script, acks, claims, connect } = await startWatched({ leaseMs: 1_000, maxAttempts: 1 });
  const { lines } = await startRunEach(address, SCRIPTS);
  const folder = await testFolder();
  await script(`echo $$ >${folder}/lost; sleep 60; true`);
  await until(async () => (await readPid(join(folder, "lost"))) > 0);
  const [lease] = (
    await Promise.all(claims.mock.results.map(({ value }) => value as Promise<Claimed>))
  ).flatMap(({ calls }) => calls);
  const other = { callId: BigInt(lease?.callId ?? 0), leaseToken: lease?.leaseToken ?? "" };
  await connect().nack({ ...other, outcome: { case: "fail", value: {} } });
  // Logged once no child holds the program's output open.
  await until(() => lines.some((line) => line.includes("lease lost")));
  expect(acks.mock.calls).toHaveLength(0);
});

test("--timeout kills the program and its children, and counts as a failed attempt", async () => {
  const { address, script, retries, store } = await startWatched({ maxAttempts: 1 });
  await startRunEach(address, ["--timeout", "1", ...SCRIPTS]);
  await script(`trap '' TERM; echo working >&2; sleep 60; sleep 60`);
  await until(async () => (await store.totals()).calls.dead === 1);
  // A busy machine may take the second to start the shell.
  const reason = expect.stringMatching(/^ran longer than 1 s(: working)?$/);
  expect(retries.mock.calls.map(([, retry]) => retry.reason)).toEqual([reason]);
});

test("SIGTERM takes nothing new, waits for running programs, and exits with 0", async () => {
  const { address, script, acks, server, store } = await startWatched();
  const { child, exited } = await startRunEach(address, ["--concurrency", "2", ...SCRIPTS]);
  const folder = await testFolder();
  await script(`echo $$ >${folder}/pid; until [ -e ${folder}/go ]; do sleep 0.05; done`);
  await until(async () => (await readPid(join(folder, "pid"))) > 0);
  child.kill("SIGTERM");
  await until(() => server.runners()[0]?.maxInFlight === 0);
  await script(`touch ${folder}/begun`);
  await writeFile(join(folder, "go"), "");
  expect(await exited).toBe(0);
  expect(acks.mock.calls).toHaveLength(1);
  expect((await store.totals()).calls.ready).toBe(1);
  await expect(readFile(join(folder, "begun"))).rejects.toThrow("ENOENT");
});

test("A second SIGTERM kills the program; its JobCall goes to the next subscriber", async () => {
  const { address, script, connect } = await startWatched();
  const { child, exited, lines } = await startRunEach(address, SCRIPTS);
  const folder = await testFolder();
  const callId = await script(`echo $$ >${folder}/pid; sleep 60; true`);
  await until(async () => (await readPid(join(folder, "pid"))) > 0);
  child.kill("SIGTERM");
  await until(() => lines.some((line) => line.includes('"stopping: ')));
  const pid = await readPid(join(folder, "pid"));
  expect(isAlive(pid)).toBe(true);
  child.kill("SIGTERM");
  expect(await exited).toBe(1);
  expect(isAlive(pid)).toBe(false);
  expect(lines.at(-1)).toBe("Stopped at once: unfinished JobCalls go to the next subscriber.");
  const next = await (await connect().subscribe()).next();
  expect([next.callId, next.attempt]).toEqual([BigInt(callId), 2]);
});

test("Connects again after jobgate was down, over a unix socket too, and counts running programs towards --concurrency", async () => {
  const folder = await testFolder();
  const path = join(folder, "runner.sock");
  const bindAddress = { kind: "unix", path } as const;
  const first = await startWatched({ bindAddress });
  const { connected } = await startRunEach(`unix:${path}`, ["--job-ids", "7,8", ...SCRIPTS]);
  // The first attempt runs until SIGKILL, some time after its lease was lost; the second one looks for it.
  const stubborn = `trap '' TERM
    if [ -e first ]; then kill -0 $(cat first) && touch overlap; true; else echo $$ >first; sleep 10; fi`;
  const stubbornId = await first.script(`cd ${folder}\n${stubborn}`);
  await until(() => existsSync(join(folder, "first")));
  await first.server.stop();
  const { accept, acks } = await startWatched({ bindAddress, store: first.store });
  await until(() => connected() === 2);
  const body = Buffer.from("true");
  await accept({ jobId: 9n, body });
  const eighthId = await accept({ jobId: 8n, body });
  const isDone = async (): Promise<boolean[]> =>
    (await Promise.all(acks.mock.results.map(({ value }) => value))).map(({ outcome }) => outcome === "done");
  await until(async () => (await isDone()).filter(Boolean).length === 2);
  const doneIds = (await isDone()).flatMap((done, index) => (done ? acks.mock.calls[index]?.[0].callId : []));
  expect(doneIds).toEqual([stubbornId, eighthId]);
  expect(existsSync(join(folder, "overlap"))).toBe(false);
});

test("Exits with 1 and the reason for a refused token and for a missing program", async () => {
  const { address } = await startWatched({ tokens: ["hunter2"] });
  const [refused, missing] = await Promise.all([
    runJobgate(["run-each", "--runner", address, "--", "cat"], { env: { JOBGATE_RUNNER_TOKEN: "wrong" } }),
    runJobgate(["run-each", "--runner", address, "--", "no-such-program"]),
  ]);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain(`${address} refuses this runner: `);
  expect(refused.stderr).not.toContain("wrong");
  expect(missing.code).toBe(1);
  expect(missing.stderr).toBe("no-such-program: no such executable program\n");
});

test.each([
  ["no program", []],
  ["a malformed address", ["--runner", "http://127.0.0.1", "--", "cat"]],
  ["a concurrency of 0", ["--concurrency", "0", "--", "cat"]],
  ["a malformed job ID", ["--job-ids", "1,x", "--", "cat"]],
  ["a malformed timeout", ["--timeout", "1.5", "--", "cat"]],
  ["a malformed media type", ["--content-type", "json", "--", "cat"]],
  ["an exit code above 255", ["--fail-on", "256", "--", "cat"]],
  ["a subscriber name too long", ["--subscriber", "x".repeat(129), "--", "cat"]],
])("Exits with 2 for bad usage: %s", async (_, args) => {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  onTestFinished(() => write.mockRestore());
  expect(await runProgram(["run-each", ...args])).toBe(2);
});
