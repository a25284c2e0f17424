import { beforeEach, describe, expect, test } from "vitest";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startOperator } from "../operator/harness.ts";
import { claimCalls } from "../store/store-fixtures.ts";
import { runHere } from "./operator-commands.ts";

let first: number;
let second: number;

const jobgate = startBeforeAll(startOperator);
beforeEach(async () => {
  for (const { callId } of (await jobgate.store.listCalls({ state: "dead", limit: 100 })).items) {
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

  test("groups counts dead letters by job and reason, and its columns select them", async () => {
    await jobgate.bury("three", "out of paper");
    const { stdout } = await run("groups");
    const rows = stdout.trimEnd().split("\n").slice(1);
    const time = expect.stringMatching(/^20/);
    expect(rows.map((row) => row.split(/ {2,}/))).toMatchObject([
      ["2", "webhook", "1/70", time, time, "out of paper"],
      ["1", "webhook", "1/70", time, time, "no good"],
    ]);
    const ids = async (...args: string[]) =>
      (await run("list", ...args)).stdout.match(/^\d+/gm)?.map(Number) ?? [];
    expect(await ids("--reason", "no good")).toEqual([first]);
    expect(await ids("--job", "1/70", "--origin", "webhook")).toHaveLength(3);
    expect(await ids("--origin", "x402")).toEqual([]);
    expect(await run("drop", "--job", "70", "--reason", "out of paper")).toEqual({
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
