import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startRunner } from "../helpers/runner.ts";
import { type OperatorUnderTest, startOperator } from "../operator/harness.ts";
import { runHere } from "./operator-commands.ts";

let jobgate: OperatorUnderTest;
let first: number;
let second: number;

beforeAll(async () => {
  jobgate = await startOperator();
});
afterAll(() => jobgate?.stop());
beforeEach(async () => {
  for (const { callId } of await jobgate.store.listDeadLetters({ limit: 100 })) {
    await jobgate.store.dropDeadLetter(callId);
  }
  first = await jobgate.bury("one\u001b[31m");
  second = await jobgate.bury("two", "out of paper");
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
    expect(await run("retry", String(first), "999", String(second))).toEqual({
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
    await expect.poll(jobgate.connectedRunners, { timeout: 10_000 }).toBe(0);
  });

  test("drop deletes dead letters", async () => {
    expect(await run("drop", String(first))).toEqual({
      code: 0,
      stdout: `${first} dropped\n`,
      stderr: "",
    });
    const left = await jobgate.store.listDeadLetters({ limit: 10 });
    expect(left.map(({ callId }) => callId)).toEqual([second]);
  });

  test("A malformed ID is bad usage, and nothing is dropped", async () => {
    expect((await run("drop", String(first), "two")).code).toBe(2);
    expect(await jobgate.store.findDeadLetter(first)).toBeDefined();
  });
});
