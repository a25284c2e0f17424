import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test, vi } from "vitest";
import { runProgram } from "../../../src/commands/program.ts";
import { startDelivery, until } from "../../delivery/harness.ts";
import { jobgateProgram } from "../../helpers/jobgate-program.ts";
import { processEnded, spawnTethered } from "../../helpers/tethered-process.ts";
import { runJobgate } from "../run-jobgate.ts";

/** Runs the body of each JobCall as a script, with one argument that a shell would expand. */
const SCRIPTS = ["--", "sh", "-s", "$(date)"];

/** Starts `jobgate run-each` as a process of its own, for one test. Resolves once it is subscribed. */
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
  const subscribed = () => lines.filter((line) => line.includes('"subscribed"')).length;
  await until(() => subscribed() > 0);
  return { child, lines, exited, subscribed };
}

/** A runner port on a real store, whose answers to runners are watched. */
async function startWatched(config: Parameters<typeof startDelivery>[0] = {}) {
  const delivery = await startDelivery(config);
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

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-run-each-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
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

test("The body is the program's input byte for byte, and what it prints is the result", async () => {
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

test("Metadata and ids are environment variables; the tokens are not, and no shell sees the arguments", async () => {
  const { address, script, acks } = await startWatched({ token: "hunter2" });
  await startRunEach(address, SCRIPTS, {
    JOBGATE_RUNNER_TOKEN: "hunter2",
    JOBGATE_OPERATOR_TOKEN: "hunter3",
    X_CHAIN_CALLER: "0xforged",
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

test("The exit code decides: 0 acks, those of --fail-on make dead letters, all else is retried with the last lines of stderr", async () => {
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
  await until(async () => (await store.listDeadLetters({ limit: 10 })).length === 5);
});

test("A result of 1 MiB is taken; a larger one is a dead letter with the reason", async () => {
  const { address, script, acks, fails } = await startWatched();
  await startRunEach(address, SCRIPTS);
  await script("head -c 1048576 /dev/zero");
  await script("head -c 1048577 /dev/zero; sleep 60");
  await until(() => fails.mock.calls.length === 1);
  expect(acks.mock.calls[0]?.[1]?.body).toHaveLength(1_048_576);
  expect(fails.mock.calls[0]?.[1]).toBe("printed more than 1048576 bytes, the maximum for a result");
});

test("Leases are extended while the program works, and no more than --concurrency work at once", async () => {
  const { address, script, acks, claims, store } = await startWatched({ leaseMs: 1_000 });
  await startRunEach(address, ["--concurrency", "2", ...SCRIPTS]);
  const folder = await makeFolder();
  const noteAndSleep = `echo start >>${folder}/log; sleep 1.3; echo end >>${folder}/log`;
  for (let index = 0; index < 4; index++) await script(noteAndSleep);
  // What it does not work on is left to other runners.
  let mostLeased = 0;
  await until(async () => {
    const { leased } = (await store.totals()).calls;
    if (leased > mostLeased) mostLeased = leased;
    return acks.mock.calls.length === 4;
  });
  expect(mostLeased).toBe(2);
  const claimed = (await Promise.all(claims.mock.results.map(({ value }) => value))).flat();
  expect(claimed.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1]);
  const notes = (await readFile(join(folder, "log"), "utf8")).trim().split("\n");
  const running = notes.map((_, index) => {
    const soFar = notes.slice(0, index + 1);
    return soFar.filter((note) => note === "start").length - soFar.filter((note) => note === "end").length;
  });
  expect(Math.max(...running)).toBe(2);
});

test("A lost lease ends the program and all that it started; so does --timeout, and it counts as a failed attempt", async () => {
  const { address, script, acks, retries, claims, connect } = await startWatched({
    leaseMs: 1_000,
    maxAttempts: 1,
  });
  const { lines } = await startRunEach(address, ["--concurrency", "2", "--timeout", "2", ...SCRIPTS]);
  const folder = await makeFolder();
  await script(`echo $$ >${folder}/lost; sleep 60; true`);
  await until(async () => (await readPid(join(folder, "lost"))) > 0);
  const [lease] = (await Promise.all(claims.mock.results.map(({ value }) => value))).flat();
  const other = { callId: BigInt(lease?.callId ?? 0), leaseToken: lease?.leaseToken ?? "" };
  await connect().nack({ ...other, outcome: { case: "fail", value: {} } });
  // Said once all that has hold of the program's output is gone.
  await until(() => lines.some((line) => line.includes("lease lost")));

  retries.mockClear();
  await script(`trap '' TERM; echo working >&2; sleep 60; sleep 60`);
  await until(() => retries.mock.calls.length === 1);
  expect(retries.mock.calls[0]?.[1].reason).toBe("ran longer than 2 s: working");
  expect(acks.mock.calls).toHaveLength(0);
});

test("SIGTERM begins nothing new, waits for what runs, and ends with 0", async () => {
  const { address, script, acks, store } = await startWatched();
  const { child, exited } = await startRunEach(address, ["--concurrency", "2", ...SCRIPTS]);
  const folder = await makeFolder();
  await script(`echo $$ >${folder}/pid; until [ -e ${folder}/go ]; do sleep 0.05; done`);
  await until(async () => (await readPid(join(folder, "pid"))) > 0);
  child.kill("SIGTERM");
  // The signal is not answered; a JobCall that comes before it has arrived would be begun, rightly.
  await new Promise((resolve) => setTimeout(resolve, 200));
  await script(`touch ${folder}/begun`);
  await until(async () => (await store.totals()).calls.leased === 2);
  await writeFile(join(folder, "go"), "");
  expect(await exited).toBe(0);
  expect(acks.mock.calls).toHaveLength(1);
  await until(async () => (await store.totals()).calls.ready === 1);
  await expect(readFile(join(folder, "begun"))).rejects.toThrow("ENOENT");
});

test("A second SIGTERM ends what runs; its JobCall goes to the next subscriber", async () => {
  const { address, script, connect } = await startWatched();
  const { child, exited, lines } = await startRunEach(address, SCRIPTS);
  const folder = await makeFolder();
  const callId = await script(`echo $$ >${folder}/pid; sleep 60; true`);
  await until(async () => (await readPid(join(folder, "pid"))) > 0);
  child.kill("SIGTERM");
  await new Promise((resolve) => setTimeout(resolve, 200));
  const pid = await readPid(join(folder, "pid"));
  expect(isAlive(pid)).toBe(true);
  child.kill("SIGTERM");
  expect(await exited).toBe(1);
  expect(isAlive(pid)).toBe(false);
  expect(lines.at(-1)).toBe("Stopped at once: unfinished JobCalls go to the next subscriber.");
  const next = await (await connect().subscribe()).next();
  expect([next.callId, next.attempt]).toEqual([BigInt(callId), 2]);
});

test("run-each subscribes again after jobgate was away, over a unix socket as well, and what it still runs counts towards --concurrency", async () => {
  const folder = await makeFolder();
  const path = join(folder, "runner.sock");
  const bindAddress = { kind: "unix", path } as const;
  const first = await startWatched({ bindAddress });
  const { subscribed } = await startRunEach(`unix:${path}`, ["--job-ids", "7,8", ...SCRIPTS]);
  // The first attempt goes on until SIGKILL, a while after its lease was lost; the second one looks for it.
  const stubborn = `trap '' TERM
    if [ -e first ]; then kill -0 $(cat first) && touch overlap; true; else echo $$ >first; sleep 10; fi`;
  const stubbornId = await first.script(`cd ${folder}\n${stubborn}`);
  await until(() => existsSync(join(folder, "first")));
  await first.server.stop();
  const { accept, acks } = await startWatched({ bindAddress, store: first.store });
  await until(() => subscribed() === 2);
  const body = Buffer.from("true");
  await accept({ jobId: 9n, body });
  const eighthId = await accept({ jobId: 8n, body });
  const isDone = async (): Promise<boolean[]> =>
    (await Promise.all(acks.mock.results.map(({ value }) => value))).map((outcome) => outcome === "done");
  await until(async () => (await isDone()).filter(Boolean).length === 2);
  const doneIds = (await isDone()).flatMap((done, index) => (done ? acks.mock.calls[index]?.[0].callId : []));
  expect(doneIds).toEqual([stubbornId, eighthId]);
  expect(existsSync(join(folder, "overlap"))).toBe(false);
});

test("A token that is refused, and a program that is not there, end with 1 and say so", async () => {
  const { address } = await startWatched({ token: "hunter2" });
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
  ["an address that is none", ["--runner", "http://127.0.0.1", "--", "cat"]],
  ["no concurrency", ["--concurrency", "0", "--", "cat"]],
  ["a job id that is none", ["--job-ids", "1,x", "--", "cat"]],
  ["a timeout that is none", ["--timeout", "1.5", "--", "cat"]],
  ["a media type that is none", ["--content-type", "json", "--", "cat"]],
  ["an exit code that is none", ["--fail-on", "256", "--", "cat"]],
  ["a subscriber name too long", ["--subscriber", "x".repeat(129), "--", "cat"]],
])("Bad usage of run-each ends with 2: %s", async (_, args) => {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  onTestFinished(() => write.mockRestore());
  expect(await runProgram(["run-each", ...args])).toBe(2);
});
