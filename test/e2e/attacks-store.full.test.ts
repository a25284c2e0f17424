import { execFile } from "node:child_process";
import { copyFile, link, readFile, rename, rm, stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { runJobgate } from "../commands/run-jobgate.ts";
import { eventually } from "../helpers/eventually.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { startRunner } from "../helpers/runner.ts";
import { testFolder } from "../helpers/test-folder.ts";

/*
 * Store beside a serve: database moved, copied back, hard-linked, log truncated, then `store check`, `info`, `backup`,
 * restart → no acknowledged job lost, no call id given twice, a clear error.
 */

const configOf = (name: string) => `
service_id = 1
store.url = "sqlite:${name}"
runner.bind_address = "127.0.0.1:0"
operator.bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks"
job_id = 1
auth = "bearer"
secret = "secret"
`;

async function start(folder: string, name = "jobgate.db"): Promise<Jobgate> {
  const jobgate = await startJobgate({ config: configOf(name), folder });
  onTestFinished(async () => void (await jobgate.stop()));
  return jobgate;
}

async function deliver({ webhooksUrl }: Jobgate) {
  const headers = { authorization: "Bearer secret" };
  const response = await fetch(`${webhooksUrl}/hooks`, { method: "POST", headers, body: "alert" });
  const { call_id: callId } = (await response.json()) as { call_id: number };
  return { status: response.status, callId };
}

/** Accepts jobs, 20 at a time. */
async function accept(jobgate: Jobgate, count: number): Promise<number[]> {
  const accepted: number[] = [];
  while (accepted.length < count) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => deliver(jobgate)));
    for (const { status, callId } of answers) {
      expect(status).toBe(202);
      accepted.push(callId);
    }
  }
  return accepted;
}

/** Runs the three commands beside a running jobgate. */
async function look(path: string) {
  const copy = join(await testFolder(), "copy.db");
  const run = (...args: string[]) =>
    runJobgate(["store", ...args], {
      files: { "jobgate.toml": `store.url = "env:STORE"` },
      env: { STORE: `sqlite:${path}` },
    });
  return Promise.all([run("info"), run("check"), run("backup", copy)]);
}

/** Restarts jobgate, and expects each job once, and call IDs that were never given out. */
async function expectAll(folder: string, accepted: readonly number[]): Promise<void> {
  const jobgate = await start(folder);
  const all = [...accepted, ...(await accept(jobgate, 20))];
  expect(new Set(all).size).toBe(all.length);
  const runner = await startRunner({ address: jobgate.runnerAddress });
  onTestFinished(() => runner.stop());
  await runner.waitFor(all.length);
  const given = runner.calls.map(({ callId }) => Number(callId));
  expect(given.toSorted((a, b) => a - b)).toEqual(all.toSorted((a, b) => a - b));
}

const CHECKPOINT = `
import Database from "libsql";
const database = new Database(process.argv[1]);
console.log(JSON.stringify(database.prepare("PRAGMA wal_checkpoint(PASSIVE)").get()));
`;

/**
 * Copies the log into the database. A process of its own does it: libsql closes a connection when it is collected, and until
 * then the index of the log stays, which makes a start without the log fail with "disk I/O error".
 */
async function logCopied(path: string): Promise<void> {
  await eventually(async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      ...["--input-type=module", "--eval", CHECKPOINT, path],
    ]);
    const { busy, log, checkpointed } = JSON.parse(stdout) as Record<string, number>;
    // Beside a checkpoint of jobgate this one is busy, and both of its numbers are -1.
    expect({ busy, checkpointed }).toEqual({ busy: 0, checkpointed: log });
  });
}

/** Bytes. The schema of a new store takes more of the log, and what a start writes after it takes less. */
const SMALL_LOG = 100_000;

/** Waits until a jobgate that has started has truncated its log, as it does once: a test's truncation looks the same. */
async function logCut(path: string): Promise<void> {
  await eventually(async () => expect((await stat(`${path}-wal`)).size).toBeLessThan(SMALL_LOG));
}

/** Longer than the indexer of the search pauses. */
const QUIET_MS = 6000;

/**
 * Waits until jobgate writes nothing. A commit that begins the log anew while a test truncates it needs none of the frames that
 * are lost, so jobgate goes on. Within such a commit, the log has a new header for a moment, and no frames.
 */
async function quiet(path: string): Promise<void> {
  await eventually(async () =>
    expect(Date.now() - (await stat(`${path}-wal`)).mtimeMs).toBeGreaterThan(QUIET_MS),
  );
}

/** Returns what differs between a log and the one that takes its place (https://sqlite.org/fileformat2.html#the_write_ahead_log). */
async function saltsOfLog(path: string): Promise<string> {
  const log = await readFile(`${path}-wal`);
  return log.subarray(16, 24).toString("hex");
}

/**
 * Accepts jobs until the log has begun anew several times, so that it lacks what an older copy lacks. Applied to an older copy, a log
 * that begins where the copy ends loses nothing.
 */
async function renewLog(jobgate: Jobgate, path: string): Promise<void> {
  const logs = new Set<string>();
  for (let round = 0; round < 50 && logs.size < 4; round += 1) {
    await accept(jobgate, 200);
    logs.add(await saltsOfLog(path));
    await logCopied(path);
  }
}

test.each(["SIGKILL", "SIGTERM"] as const)(
  "A database that is moved and put back as a copy keeps its log: the commands refuse, and a restart after %s has all jobs",
  async (signal) => {
    const folder = await testFolder();
    const path = join(folder, "jobgate.db");
    const jobgate = await start(folder);
    const accepted = await accept(jobgate, 200);
    await rename(path, join(folder, "moved.db"));
    await copyFile(join(folder, "moved.db"), path);
    const log = await stat(`${path}-wal`);

    for (const { code, stdout, stderr } of await look(path)) {
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toContain(`is not the file that process ${jobgate.pid} serves under this name`);
    }
    expect((await deliver(jobgate)).status).toBe(503);
    jobgate.kill(signal);
    await jobgate.exited;
    expect((await stat(`${path}-wal`)).ino).toBe(log.ino);
    await expectAll(folder, accepted);
  },
);

test("An older copy of the database gives no call ID out again, after SIGKILL as well", async () => {
  const folder = await testFolder();
  const path = join(folder, "jobgate.db");
  const jobgate = await start(folder);
  const kept = await accept(jobgate, 20);
  await logCopied(path);
  await copyFile(path, join(folder, "older.db"));
  const later = await accept(jobgate, 200);
  jobgate.kill("SIGKILL");
  await jobgate.exited;
  await rm(`${path}-wal`);
  await rename(join(folder, "older.db"), path);

  const restarted = await start(folder);
  const next = await accept(restarted, 20);
  expect(Math.min(...next)).toBeGreaterThan(Math.max(...later));
  restarted.kill();
  await restarted.exited;
  await expectAll(folder, [...kept, ...next]);
});

test("An older copy beside the log of the file that it has replaced is not served", async () => {
  const folder = await testFolder();
  const path = join(folder, "jobgate.db");
  const jobgate = await start(folder);
  await logCut(path);
  await accept(jobgate, 20);
  await logCopied(path);
  await copyFile(path, join(folder, "older.db"));
  await renewLog(jobgate, path);
  const accepted = await accept(jobgate, 20);
  jobgate.kill("SIGKILL");
  await jobgate.exited;
  await rename(path, join(folder, "served.db"));
  await rename(join(folder, "older.db"), path);

  await expect(start(folder)).rejects.toThrow(
    /is an older copy, and .*-wal goes on where a newer file ended/,
  );
  await rename(join(folder, "served.db"), path);
  const restarted = await start(folder);
  expect(Math.min(...(await accept(restarted, 20)))).toBeGreaterThan(Math.max(...accepted));
});

test("A second jobgate on a hard link is refused with the first one's pid, and so are the commands", async () => {
  const folder = await testFolder();
  const other = join(await testFolder(), "other.db");
  const jobgate = await start(folder);
  const accepted = await accept(jobgate, 40);
  await link(join(folder, "jobgate.db"), other);

  const expected = `is in use by process ${jobgate.pid}`;
  await expect(start(await testFolder(), other)).rejects.toThrow(expected);
  for (const { code, stderr } of await look(other)) {
    expect(code).toBe(1);
    expect(stderr).toContain(expected);
  }
  for (const { code } of await look(join(folder, "jobgate.db"))) expect(code).toBe(0);
  accepted.push(...(await accept(jobgate, 20)));
  jobgate.kill("SIGKILL");
  await jobgate.exited;
  await expect(start(await testFolder(), other)).rejects.toThrow("hard links");
  await expectAll(folder, accepted);
});

for (const part of [0, 0.5])
  for (const signal of ["SIGKILL", "SIGTERM"] as const)
    test(`A log that is truncated to ${part} of its size is noticed, and a restart after ${signal} has all jobs`, async () => {
      const folder = await testFolder();
      const path = join(folder, "jobgate.db");
      const jobgate = await start(folder);
      await logCut(path);
      const accepted = await accept(jobgate, 200);
      await quiet(path);
      await logCopied(path);
      const { size } = await stat(`${path}-wal`);
      await truncate(`${path}-wal`, Math.floor(size * part));

      expect((await deliver(jobgate)).status).toBe(503);
      await eventually(() => expect(jobgate.logs.join("\n")).toContain("jobgate.db-wal was truncated"));
      for (const { code } of await look(path)) expect(code).toBe(0);
      jobgate.kill(signal);
      await jobgate.exited;
      await expectAll(folder, accepted);
    });

test.each(["SIGKILL", "SIGTERM"] as const)(
  "A log that is truncated while jobs are accepted: a restart after %s has all jobs, or says that changes are lost",
  async (signal) => {
    const folder = await testFolder();
    const path = join(folder, "jobgate.db");
    const jobgate = await start(folder);
    await logCut(path);
    const accepted = await accept(jobgate, 100);
    const senders = Array.from({ length: 10 }, async () => {
      for (let sent = 0; sent < 1_000; sent += 1) {
        const { status, callId } = await deliver(jobgate);
        if (status !== 202) return status;
        accepted.push(callId);
      }
      return 202;
    });
    await eventually(() => expect(accepted.length).toBeGreaterThan(500));
    await truncate(`${path}-wal`, 0);
    expect(await Promise.all(senders)).toEqual(senders.map(() => 503));
    const beside = await look(path);
    jobgate.kill(signal);
    await jobgate.exited;
    const stopped = await look(path);

    const refusal = await expectAll(folder, accepted).then(
      () => undefined,
      (error: Error) => error.message,
    );
    if (refusal === undefined) return;
    expect(refusal).toContain(
      "jobgate.db-wal was truncated while jobgate.db was in use, and changes are lost",
    );
    for (const { code, stdout, stderr } of [...beside, ...stopped]) {
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toMatch(/-wal was truncated while .* was in use, and changes are lost/);
    }
    await rm(`${path}-wal`);
    const restarted = await start(folder);
    expect(Math.min(...(await accept(restarted, 20)))).toBeGreaterThan(Math.max(...accepted));
    for (const { code, stderr } of await look(path))
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  },
);

test("The commands do not advise to delete the log of a running jobgate whose database was overwritten in place", async () => {
  const folder = await testFolder();
  const path = join(folder, "jobgate.db");
  const jobgate = await start(folder);
  await logCut(path);
  await accept(jobgate, 20);
  const copy = join(folder, "older.db");
  const { code } = await runJobgate(["store", "backup", copy], {
    files: { "jobgate.toml": `store.url = "sqlite:${path}"` },
  });
  expect(code).toBe(0);
  await renewLog(jobgate, path);
  await quiet(path);
  // It would notice the loss within seconds, and end.
  jobgate.kill("SIGSTOP");
  await copyFile(copy, path);
  for (const { code, stdout, stderr } of await look(path)) {
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain(`was overwritten while process ${jobgate.pid} serves it`);
    expect(stderr).not.toContain("delete");
  }
  jobgate.kill("SIGKILL");
  await jobgate.exited;
});
