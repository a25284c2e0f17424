import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Claimed } from "../../../src/store/contract/work-queue.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { until } from "../../helpers/until.ts";
import { readPid, SCRIPTS, startRunEach, startWatched } from "./harness.ts";

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

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
