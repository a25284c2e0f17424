import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { runProgram } from "../../../src/commands/program.ts";
import { runHereWith } from "../../commands/operator-commands.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { until } from "../../helpers/until.ts";
import { readPid, SCRIPTS, startRunEach, startWatched } from "./harness.ts";

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

test("Metadata and IDs become environment variables, tokens do not, no shell expands the arguments, and a result over 1 MiB makes a dead letter", async () => {
  const { address, script, acks, fails } = await startWatched({ tokens: ["hunter2"] });
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

  await script("head -c 1048576 /dev/zero");
  await script("head -c 1048577 /dev/zero; sleep 60");
  await until(() => fails.mock.calls.length === 1);
  expect(acks.mock.calls[1]?.[1]?.body).toHaveLength(1_048_576);
  expect(fails.mock.calls[0]?.[1]).toBe("printed more than 1048576 bytes, the maximum for a result");
});

test("Exit code 0 acks, a code of --fail-on makes a dead letter, and any other retries with the last lines of stderr; SIGTERM waits for running programs, takes nothing new, and exits with 0", async () => {
  const { address, script, acks, retries, fails, server, store } = await startWatched({ maxAttempts: 1 });
  const { child, exited, lines } = await startRunEach(address, [
    "--concurrency",
    "4",
    "--fail-on",
    "65,3",
    ...SCRIPTS,
  ]);
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

  const folder = await testFolder();
  await script(`echo $$ >${folder}/pid; until [ -e ${folder}/go ]; do sleep 0.05; done`);
  await until(async () => (await readPid(join(folder, "pid"))) > 0);
  child.kill("SIGTERM");
  await until(() => server.runners()[0]?.maxInFlight === 0);
  await script(`touch ${folder}/begun`);
  await writeFile(join(folder, "go"), "");
  expect(await exited).toBe(0);
  expect(acks.mock.calls).toHaveLength(2);
  expect((await store.totals()).calls.ready).toBe(1);
  await expect(readFile(join(folder, "begun"))).rejects.toThrow("ENOENT");
});

test("Exits with 1 and the reason for a refused token and for a missing program", async () => {
  const { address } = await startWatched({ tokens: ["hunter2"] });
  const env = { JOBGATE_RUNNER_TOKEN: "wrong" };
  const refused = await runHereWith(["run-each", "--runner", address, "--", "cat"], { env });
  const missing = await runHereWith(["run-each", "--runner", address, "--", "no-such-program"]);
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
