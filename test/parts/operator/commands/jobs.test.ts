import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { runHere, runHereWith } from "../../../commands/operator-commands.ts";
import { configOf } from "../../../config/config-folder.ts";
import { type OperatorUnderTest, startOperator, TOKEN } from "../../../helpers/operator.ts";
import { WEBHOOKS_CONFIG } from "../../../helpers/small-configs.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  NO_BACKOFF,
  paidId,
  paymentIntent,
} from "../../../store/store-fixtures.ts";

let jobgate: OperatorUnderTest;
let target: string;
let paid: number;
let waiting: number;

beforeAll(async () => {
  const config = await configOf(WEBHOOKS_CONFIG.replace("job_id = 30", 'job_id = 30\nname = "orders"'));
  jobgate = await startOperator({ token: TOKEN, configuration: config });
  target = jobgate.operator.address;
  const { store } = jobgate;
  paid = await paidId(store, 1);
  const lease = await claimOne(store, { subscriber: "worker-1" });
  await store.retry(lease, {
    delayMs: 0,
    backoff: NO_BACKOFF,
    maxAttempts: 3,
    reason: "no \u001b[2J memory",
  });
  for (const again of await claimCalls(store, { subscriber: "worker-2" })) await store.ack(again);
  waiting = await acceptId(store, { metadata: { "X-GitHub-Delivery": "72d3162e" } });
});
afterAll(() => jobgate?.stop());
afterEach(() => vi.unstubAllEnvs());

const run = (...args: string[]) => {
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
  return runHere(...args, "--target", target);
};
const idsOf = (stdout: string) =>
  stdout
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((row) => Number(row.split(" ")[0]));

describe("jobgate jobs", () => {
  test("list prints a table of all JobCalls, newest first", async () => {
    const { code, stdout } = await run("jobs", "list");
    const [headings, ...rows] = stdout.trimEnd().split("\n");
    expect(code).toBe(0);
    expect(headings).toMatch(/^ID +STATE +ORIGIN +JOB +ATTEMPTS +RUNNER +PAID +ACCEPTED +TOOK +REASON$/);
    expect(rows).toEqual([
      expect.stringMatching(new RegExp(`^${waiting} +ready +webhook +1/30 orders +0 +- +- +20\\S+Z +-$`)),
      expect.stringMatching(
        new RegExp(`^${paid} +done +x402 +1/7 +2 +worker-2 +3264000 base units of USDC +20`),
      ),
    ]);
  });

  test("list takes filters as options, and --limit or --all", async () => {
    const { payer } = paymentIntent(1).key;
    const expected: [args: readonly string[], ids: readonly number[]][] = [
      [["--state", "done"], [paid]],
      [["--origin", "webhook"], [waiting]],
      [["--job", "7"], [paid]],
      [["--job", "1/30"], [waiting]],
      [["--job", "2/30"], []],
      [["--payer", payer], [paid]],
      [["--text", "72d3162e"], [waiting]],
      [
        ["--since", "1h"],
        [waiting, paid],
      ],
      [["--until", "2020-01-01"], []],
      [["--limit", "1"], [waiting]],
      [["--all"], [waiting, paid]],
    ];
    for (const [args, ids] of expected)
      expect({ args, ids: idsOf((await run("jobs", "list", ...args)).stdout) }).toEqual({ args, ids });
    const { stdout } = await run("jobs", "list", "--json", "--state", "ready");
    expect(JSON.parse(stdout)).toMatchObject({ call_id: String(waiting), state: "CALL_STATE_READY" });
  });

  test("show prints what happened to a JobCall, with runners and reasons, and escapes control characters", async () => {
    const { stdout } = await run("jobs", "show", String(paid));
    expect(stdout).toMatch(/^state +done$/m);
    const [, table = ""] = stdout.split("\n\n");
    const events = table.split("\n").slice(1);
    expect(events.map((line) => line.replace(/^20\S+Z +(\d+ \w+ )+ */, "").replace(/ +/g, " "))).toEqual([
      `payment 3264000 base units of USDC from ${paymentIntent(1).key.payer}`,
      `payment settled 3264000 base units of USDC from ${paymentIntent(1).key.payer}`,
      "accepted x402, job 1/7",
      "delivered attempt 1 to worker-1",
      "retried no \\u{1b}[2J memory",
      "delivered attempt 2 to worker-2",
      "acked",
    ]);
    const named = (await run("jobs", "show", String(waiting))).stdout;
    expect(named).toMatch(/^job +1\/30 orders$/m);
    expect(named).toMatch(/ accepted +webhook, job 1\/30 orders$/m);
    expect(await run("jobs", "show", "99")).toEqual({
      code: 1,
      stdout: "",
      stderr: "There is no call with call id 99.\n",
    });
  });

  test("Refuses options that it cannot read", async () => {
    for (const args of [
      ["--state", "lost"],
      ["--job", "x"],
      ["--since", "yesterday"],
      ["--all", "--limit", "3"],
    ]) {
      const { code, stdout } = await run("jobs", "list", ...args);
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
    }
  });
});

test("status shows in one screen what needs the operator, what waits, and what was done", async () => {
  const { code, stdout } = await run("status");
  expect(code).toBe(0);
  const lines = stdout.split("\n").map((line) => line.replace(/ +/g, " "));
  expect(lines).toEqual(
    expect.arrayContaining([
      expect.stringContaining(
        "needs you 1 job of orders waits, and no runner that is connected here takes it: ",
      ),
      expect.stringMatching(/^queue 1 waiting, the oldest for \d+ \w+.*; 0 running$/),
      "places 1 of 100000 taken",
      "since start 2 jobs accepted, 1 done, 1 retried, 0 dead letters, 0 HTTP requests refused",
      "sold in 24 h 3264000 base units of USDC in 1 payment, before refunds and fees",
      "paid jobs 1 in all, 1 done; 0 payments being settled",
    ]),
  );
  expect(lines.length).toBeLessThan(24);
});

test("Commands read only the operator's part of a configuration: no other secret, and no token that is set already", async () => {
  const config = (token: string) => `
    [operator]
    bind_address = "${target}"
    token = "${token}"
    [x402]
    facilitator_url = "env:MISSING"
    [[webhooks.endpoints]]
    secret = "env:MISSING"
    no_such_key = 1
  `;
  const list = (token: string, env: Record<string, string>) =>
    runHereWith(["payments", "list"], { files: { "jobgate.toml": config(token) }, env });
  expect(await list("env:SECRET", { SECRET: TOKEN })).toMatchObject({ code: 0, stderr: "" });
  expect(await list("env:MISSING", { JOBGATE_OPERATOR_TOKEN: TOKEN })).toMatchObject({ code: 0, stderr: "" });
  expect(await list("env:MISSING", {})).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/jobgate\.toml:4.*operator\.token.*MISSING is not set/),
  });
});
