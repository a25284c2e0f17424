import { spawn } from "node:child_process";
import { once } from "node:events";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { runHere } from "../../../commands/operator-commands.ts";
import { jobgateProgram } from "../../../helpers/jobgate-program.ts";
import { startOperator } from "../../../helpers/operator.ts";
import { startRunner } from "../../../helpers/runner.ts";
import { startBeforeAll } from "../../../helpers/start-before-all.ts";
import { claimCalls } from "../../../store/store-fixtures.ts";

let first: number;
let second: number;

const jobgate = startBeforeAll(startOperator);
beforeEach(async () => {
  for (const { callId } of (await jobgate.store.listCalls({ state: "dead", limit: 100 })).items) {
    await jobgate.store.dropDeadLetter(callId);
  }
  first = await jobgate.deadLetter("one\u001b[31m");
  second = await jobgate.deadLetter("two", "out of paper");
});

const run = (...args: string[]) => runHere("dead-letters", ...args, "--target", jobgate.operator.address);

describe("jobgate dead-letters", () => {
  test("list prints a table or JSON lines, newest first", async () => {
    const rows = (await run("list")).stdout.trimEnd().split("\n").slice(1);
    expect(rows.map((row) => row.split(/ {2,}/))).toMatchObject([
      [String(second), "webhook", "1/70", "1", expect.stringMatching(/^20/), "out of paper"],
      [String(first), "webhook", "1/70", "1", expect.stringMatching(/^20/), "no good"],
    ]);
    const { stdout } = await run("list", "--json", "--limit", "1");
    expect(JSON.parse(stdout)).toMatchObject({ call_id: String(second), reason: "out of paper" });
  });

  test("groups counts dead letters by job and reason, and its columns select them", async () => {
    await jobgate.deadLetter("three", "out of paper");
    const { stdout } = await run("groups");
    const rows = stdout.trimEnd().split("\n").slice(1);
    const time = expect.stringMatching(/^20/);
    expect(rows.map((row) => row.split(/ {2,}/))).toMatchObject([
      ["2", "webhook", "1/70", time, time, "out of paper"],
      ["1", "webhook", "1/70", time, time, "no good"],
    ]);
    const found = await run("groups", "--text", "PAPER");
    expect(found.stderr).toBe("2 dead letters in 1 group.\n");
    expect(found.stdout).not.toContain("no good");
    const ids = async (...args: string[]) =>
      (await run("list", ...args)).stdout.match(/^\d+/gm)?.map(Number) ?? [];
    expect(await ids("--reason", "no good")).toEqual([first]);
    expect(await ids("--job", "1/70", "--origin", "webhook")).toHaveLength(3);
    expect(await ids("--origin", "x402")).toEqual([]);
    expect(await run("drop", "--job", "70", "--reason", "out of paper", "--yes")).toEqual({
      code: 0,
      stdout: "2 dropped: webhook 1/70, out of paper\n",
      stderr: "",
    });
    expect(await run("retry", "--all")).toMatchObject({ stdout: "1 retried: webhook 1/70, no good\n" });
    for (const call of await claimCalls(jobgate.store)) await jobgate.store.ack(call);
    expect(await run("drop", "--all")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("No dead letter"),
    });
    expect(await run("groups")).toEqual({ code: 0, stdout: "", stderr: "There are none.\n" });
  });

  test("Refuses to change nothing in particular, or IDs and groups at once", async () => {
    expect((await run("drop")).code).toBe(2);
    expect((await run("drop", String(first), "--all")).code).toBe(2);
    expect(await jobgate.store.findDeadLetter(first)).toBeDefined();
  });

  test.each([
    ["JOBGATE_JOB", "1/70"],
    ["JOBGATE_ORIGIN", "webhook"],
    ["JOBGATE_REASON", "no good"],
    ["JOBGATE_ALL", "1"],
    ["JOBGATE_YES", "1"],
  ])("%s selects nothing to drop or to retry, and approves nothing", async (name, value) => {
    vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const change of ["drop", "retry"]) {
      expect(await run(change)).toMatchObject({ code: 2, stdout: "" });
      expect(await run(change, "--all")).toMatchObject({ code: 2, stdout: "" });
    }
    expect((await jobgate.store.totals()).calls.dead).toBe(2);
  });

  test("More than one is dropped or retried with --yes alone where no terminal can ask", async () => {
    for (const selection of [["--all"], ["--job", "70"], [String(first), String(second)]]) {
      expect(await run("drop", ...selection)).toEqual({
        code: 2,
        stdout: "",
        stderr: "error: Pass --yes to drop 2 dead letters. Nothing was done.\n",
      });
    }
    expect((await jobgate.store.totals()).calls.dead).toBe(2);
    expect((await run("drop", "--all", "--yes")).code).toBe(0);
    expect((await jobgate.store.totals()).calls.dead).toBe(0);
  });

  test.runIf(process.platform === "linux")(
    "On a terminal, drop asks, and drops after yes alone",
    async () => {
      const answered = async (answer: string) => {
        const words = [process.execPath, ...jobgateProgram(), "dead-letters", "drop", "--all"];
        const command = [...words, "--target", jobgate.operator.address].map((word) => `'${word}'`).join(" ");
        const child = spawn("script", ["-qec", command, "/dev/null"], { timeout: 30_000 });
        onTestFinished(() => void child.kill());
        const ended = once(child, "exit");
        let printed = "";
        child.stdout.on("data", (chunk: Buffer) => {
          if (!printed.includes("[y/N]") && `${printed}${chunk}`.includes("[y/N]"))
            child.stdin.write(`${answer}\n`);
          printed += chunk.toString();
        });
        return { code: (await ended)[0] as number, printed };
      };
      expect(await answered("n")).toMatchObject({
        code: 1,
        printed: expect.stringContaining("Nothing was done."),
      });
      expect((await jobgate.store.totals()).calls.dead).toBe(2);
      const { code, printed } = await answered("y");
      expect({ code, printed }).toEqual({
        code: 0,
        printed: expect.stringContaining("drop 2 dead letters? [y/N]"),
      });
      expect((await jobgate.store.totals()).calls.dead).toBe(0);
    },
  );

  test("show prints metadata and body, and escapes control characters", async () => {
    const { stdout } = await run("show", String(first));
    expect(stdout).toMatch(/^X-WEBHOOK-PATH +\/hooks\/test$/m);
    expect(stdout).toMatch(/^body, 8 bytes +one\\u\{1b\}\[31m$/m);
    expect(stdout).not.toContain("\u001b");
    const json = JSON.parse((await run("show", String(first), "--json")).stdout);
    expect(Buffer.from(json.body, "base64").toString()).toBe("one\u001b[31m");
  });

  test("retry returns dead letters to a runner, and exits with 1 if an ID is not a dead letter", async () => {
    const runner = await startRunner({ address: jobgate.runnerAddress });
    expect(await run("retry", "--yes", String(first), "999", String(second))).toEqual({
      code: 1,
      stdout: `${first} retried\n${second} retried\n`,
      stderr: "999 is not a dead letter\n",
    });
    const calls = await runner.waitFor(2);
    expect(calls.map(({ callId, attempt }) => [Number(callId), attempt]).sort()).toEqual([
      [first, 2],
      [second, 2],
    ]);
    await runner.stop();
    await expect.poll(jobgate.connectedRunners).toBe(0);
  });

  test("drop deletes dead letters", async () => {
    expect(await run("drop", String(first))).toEqual({
      code: 0,
      stdout: `${first} dropped\n`,
      stderr: "",
    });
    const left = await jobgate.store.listCalls({ state: "dead", limit: 10 });
    expect(left.items.map(({ callId }) => callId)).toEqual([second]);
  });

  test("A malformed ID is bad usage, and nothing is dropped", async () => {
    expect((await run("drop", String(first), "two")).code).toBe(2);
    expect(await jobgate.store.findDeadLetter(first)).toBeDefined();
  });
});
