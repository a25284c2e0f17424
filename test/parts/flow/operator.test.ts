import { afterEach, describe, expect, test, vi } from "vitest";
import { createOperatorClient, SearchKind } from "../../../src/commands/operator-client.ts";
import { Fail } from "../../../src/runner/job.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { startRunner } from "../../helpers/runner.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { testFolder } from "../../helpers/test-folder.ts";

const CONFIG = `
[store]
url = "sqlite:jobgate.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/orders"
name = "orders"
job_id = 1
order_by = "header:X-Customer"
on_dead = "hold"
[[webhooks.endpoints]]
path = "/unordered"
job_id = 2
[[webhooks.endpoints]]
path = "/json"
job_id = 4
order_by = "json:/customer"
[[webhooks.endpoints]]
path = "/limited"
job_id = 3
concurrency = 1
rate = "2/h"
`;
/** A customer whose name must not be in the log. */
const ADA = "ada-whose-name-is-in-no-log";
const KEY = { endpoint: "/orders", key: ADA };
const within = { timeout: 10_000, interval: 20 };

const jobgate = startBeforeAll(() => startEmbeddedJobgate({ config: CONFIG }));
const client = (url = jobgate.operatorUrl) => createOperatorClient({ address: { url } });
const command = (...args: string[]) => runHere(...args, "--target", jobgate.operatorUrl);
const listed = async () => (await client().listHeldKeys({})).keys;

function post(body: string, { customer = ADA, url = jobgate.webhooksUrl } = {}) {
  return fetch(`${url}/orders`, { method: "POST", body, headers: { "x-customer": customer } });
}

async function send(body: string, options?: Parameters<typeof post>[1]): Promise<number> {
  const response = await post(body, options);
  expect(response.status).toBe(202);
  return ((await response.json()) as { call_id: number }).call_id;
}

/** Starts a runner that notes the bodies that it gets. */
async function startNoting(handle: (body: string) => void = () => {}, address = jobgate.runnerAddress) {
  const bodies: string[] = [];
  const runner = await startRunner({
    address,
    handle(call) {
      const body = Buffer.from(call.body).toString();
      bodies.push(body);
      handle(body);
    },
  });
  return { bodies, stop: () => runner.stop() };
}

/** Reasons why a JobCall waits, and its key. */
async function waits(callId: number) {
  const { waitReasons, orderKey } = await client().getCall({ callId: BigInt(callId) });
  return { reasons: waitReasons, orderKey };
}

function logged(text: string) {
  return jobgate.logs.flatMap((line) => {
    const { msg, level, time: _, ...fields } = JSON.parse(line);
    return msg === text ? [{ level, ...fields }] : [];
  });
}

afterEach(async () => {
  vi.unstubAllEnvs();
  for (const { endpoint, key, callId, pause } of await listed()) {
    if (pause !== undefined) await client().resumeKey({ endpoint, key, by: "afterwards" });
    if (callId !== 0n) await client().dropDeadLetters({ callIds: [callId] });
  }
  expect(jobgate.logs.join("\n")).not.toContain(ADA);
});

describe("A paused key", () => {
  test("Webhooks of a paused key are accepted and wait, webhooks of other keys go on, and a resume lets them go in their order", async () => {
    await client().pauseKey({ ...KEY, by: "ada", note: "too many" });
    const { bodies, stop } = await startNoting();
    for (const body of ["1", "2", "3"]) await send(body);
    await send("of bob", { customer: "bob" });
    await expect.poll(() => bodies, within).toEqual(["of bob"]);
    expect(await listed()).toMatchObject([
      { ...KEY, callId: 0n, waiting: 3n, pause: { by: "ada", note: "too many", refusesAccepts: false } },
    ]);
    expect(await client().resumeKey({ ...KEY, by: "ada" })).toMatchObject({ heldBy: 0n });
    await expect.poll(() => bodies, within).toEqual(["of bob", "1", "2", "3"]);
    await expect.poll(listed, within).toEqual([]);
    await stop();
  });

  test("A webhook that was ready when its key was paused does not go out", async () => {
    await send("ready");
    const { paused } = await client().pauseKey({ ...KEY, by: "ada" });
    expect(paused).toMatchObject({ waiting: 1n, isOneOut: false });
    const { bodies, stop } = await startNoting();
    await send("of bob", { customer: "bob" });
    await expect.poll(() => bodies, within).toEqual(["of bob"]);
    await client().resumeKey({ ...KEY, by: "ada" });
    await expect.poll(() => bodies, within).toEqual(["of bob", "ready"]);
    await stop();
  });

  test("If its accepts are refused, its webhooks are answered 503 with a time to come back, and others 202", async () => {
    await client().pauseKey({ ...KEY, by: "ada", refuseAccepts: true });
    const refused = await post("no");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "60"]);
    expect(await refused.json()).toMatchObject({ code: "job_paused" });
    const { bodies, stop } = await startNoting();
    await send("of bob", { customer: "bob" });
    await client().pauseKey({ ...KEY, by: "ada" });
    await send("yes");
    await client().resumeKey({ ...KEY, by: "ada" });
    await expect.poll(() => bodies, within).toEqual(["of bob", "yes"]);
    await stop();
  });

  test("A key that is longer than what is kept of it is found by its whole text", async () => {
    const customer = `${"x".repeat(300)}!`;
    await client().pauseKey({ endpoint: "orders", key: customer, by: "ada" });
    await send("waits", { customer });
    expect(await listed()).toMatchObject([{ endpoint: "/orders", waiting: 1n }]);
    await client().resumeKey({ endpoint: "/orders", key: customer, by: "ada" });
    const { bodies, stop } = await startNoting();
    await expect.poll(() => bodies, within).toEqual(["waits"]);
    await stop();
  });

  test("A key with half a character is listed with U+FFFD in its place, and is paused and resumed by that text", async () => {
    const key = { endpoint: "/json", key: "half \ufffd" };
    await client().pauseKey({ ...key, by: "ada" });
    const body = '{"customer":"half \\ud83d"}';
    expect((await fetch(`${jobgate.webhooksUrl}/json`, { method: "POST", body })).status).toBe(202);
    expect(await listed()).toMatchObject([{ ...key, waiting: 1n }]);
    const { bodies, stop } = await startNoting();
    await client().resumeKey({ ...key, by: "ada" });
    await expect.poll(() => bodies, within).toEqual([body]);
    await stop();
  });

  test("A pause outlives a restart and a reload without the endpoint", async () => {
    const folder = await testFolder();
    const first = await startEmbeddedJobgate({ config: CONFIG, folder });
    await client(first.operatorUrl).pauseKey({ ...KEY, by: "ada", note: "too many" });
    await first.stop();
    const second = await startEmbeddedJobgate({ config: CONFIG, folder });
    await send("waits", { url: second.webhooksUrl });
    await second.stop();
    const without = CONFIG.replace(/\[\[webhooks.endpoints\]\]\npath = "\/orders"[^[]*/, "");
    const third = await startEmbeddedJobgate({ config: without, folder });
    const { keys } = await client(third.operatorUrl).listHeldKeys({});
    expect(keys).toMatchObject([{ ...KEY, waiting: 1n, pause: { note: "too many" } }]);
    const { bodies, stop } = await startNoting(undefined, third.runnerAddress);
    await client(third.operatorUrl).resumeKey({ ...KEY, by: "ada" });
    await expect.poll(() => bodies, within).toEqual(["waits"]);
    await stop();
    await third.stop();
  });
});

describe("Operators", () => {
  test("Each decision is logged with who made it and why, and without the key", async () => {
    await client().pauseKey({ ...KEY, endpoint: "orders", by: "ada", note: "too many", refuseAccepts: true });
    await client().resumeKey({ ...KEY, by: "bob" });
    const paused = { endpoint: "/orders", by: "ada", note: "too many", refusesAccepts: true };
    expect(logged("key paused by the operator").at(-1)).toMatchObject(paused);
    expect(logged("key resumed by the operator").at(-1)).toMatchObject({ endpoint: "/orders", by: "bob" });
  });

  test("A dead letter that holds its key is logged as a warning without the key", async () => {
    const { stop } = await startNoting(() => {
      throw new Fail("no ink");
    });
    const callId = await send("dies");
    await expect
      .poll(() => logged("a dead letter holds its key"), within)
      .toMatchObject([{ level: 40, callId, endpoint: "/orders" }]);
    await stop();
  });

  test("Held and paused keys are counted in totals and metrics, each once", async () => {
    const { stop } = await startNoting(() => {
      throw new Fail("no ink");
    });
    await send("dies");
    await expect.poll(async () => (await listed()).length, within).toBe(1);
    await stop();
    await client().pauseKey({ ...KEY, by: "ada" });
    await client().pauseKey({ ...KEY, key: "bob", by: "ada" });
    expect(await client().getTotals({})).toMatchObject({ heldKeys: 1n, pausedKeys: 2n });
    const text = await (await fetch(`${jobgate.operatorUrl}/metrics`)).text();
    expect(text.split("\n").filter((line) => line.startsWith("jobgate_order_keys{"))).toEqual([
      'jobgate_order_keys{endpoint="/orders",state="active"} 0',
      'jobgate_order_keys{endpoint="/orders",state="held"} 1',
      'jobgate_order_keys{endpoint="/orders",state="paused"} 1',
    ]);
  });

  test.each([
    ["no endpoint", { ...KEY, endpoint: "/nothing" }, 'no webhook endpoint "/nothing" with order_by'],
    ["an endpoint without order_by", { ...KEY, endpoint: "/unordered" }, "with order_by"],
    ["no key", { ...KEY, key: "" }, "key: expected the value that the requests have in common"],
    ["no operator", { ...KEY, by: " " }, "by: expected the operator's name"],
  ])("A request to pause that names %s is refused, and nothing is paused", async (_, request, message) => {
    await expect(client().pauseKey({ by: "ada", ...request })).rejects.toThrow(message);
    expect(await listed()).toEqual([]);
  });

  test("A key that is not paused cannot be resumed", async () => {
    await expect(client().resumeKey({ ...KEY, by: "ada" })).rejects.toThrow("is paused");
  });
});

describe("A JobCall that waits", () => {
  const KEY_OF = `Its key "${ADA}" of /orders`;

  test("Its call names the earlier JobCalls of its key, the dead letter that holds the key, and the pause", async () => {
    const runner = await startRunner({ address: jobgate.runnerAddress, handle: "leave" });
    const first = await send("1");
    await runner.waitFor(1);
    await send("2");
    const last = await send("3");
    expect(await waits(first)).toEqual({ reasons: [], orderKey: ADA });
    expect(await waits(last)).toEqual({
      reasons: [
        `${KEY_OF} has a JobCall that was accepted earlier and is not finished, and 1 more that waited before.`,
      ],
      orderKey: ADA,
    });
    const { callId, leaseToken } = runner.calls[0] ?? expect.fail();
    const outcome = { case: "fail", value: { reason: "no ink" } } as const;
    await runner.nack({ nacks: [{ callId, leaseToken, outcome }] });
    const held = `${KEY_OF} is held by dead letter ${first}: retry or drop the dead letter.`;
    expect(await waits(last)).toEqual({ reasons: [held], orderKey: ADA });
    expect(await waits(first)).toEqual({ reasons: [], orderKey: ADA });
    await client().pauseKey({ ...KEY, by: "ada", note: "too many" });
    const paused = `${KEY_OF} is paused by ada (too many): resume the key.`;
    expect((await waits(last)).reasons).toEqual([held, paused]);
    const lines = (await command("jobs", "show", String(last))).stdout
      .split("\n")
      .map((line) => line.split(/ {2,}/));
    expect(lines).toContainEqual(["waits", `${held} ${paused}`]);
    expect(lines).toContainEqual(["order key", ADA]);
    await client().dropDeadLetters({ callIds: [BigInt(first)] });
    await client().resumeKey({ ...KEY, by: "ada" });
    for (const count of [2, 3]) {
      await runner.waitFor(count);
      const { callId, leaseToken } = runner.calls[count - 1] ?? expect.fail();
      await runner.ack({ acks: [{ callId, leaseToken }] });
    }
    await runner.stop();
  });

  test("Its call names the limits of its job that are reached", async () => {
    const runner = await startRunner({ address: jobgate.runnerAddress, handle: "leave" });
    const accept = async () => {
      const response = await fetch(`${jobgate.webhooksUrl}/limited`, { method: "POST", body: "x" });
      return ((await response.json()) as { call_id: number }).call_id;
    };
    await accept();
    await runner.waitFor(1);
    const waiting = await accept();
    const full = "Runners have 1 JobCalls of job 3, and its concurrency is 1.";
    expect(await waits(waiting)).toEqual({ reasons: [full], orderKey: "" });
    const ack = async (index: number) => {
      const { callId, leaseToken } = runner.calls[index] ?? expect.fail();
      await runner.ack({ acks: [{ callId, leaseToken }] });
    };
    await ack(0);
    await runner.waitFor(2);
    await ack(1);
    const [reason, ...more] = (await waits(await accept())).reasons;
    expect(more).toEqual([]);
    expect(reason).toMatch(
      /^Job 3 has reached its rate, 2 in 3600 s: the next JobCall goes out in 3[56]\d\d s or less\.$/,
    );
    await runner.stop();
  });

  test("The search finds its key by the beginning, and leads to the JobCall that waits or to the dead letter", async () => {
    const { stop } = await startNoting(() => {
      throw new Fail("no ink");
    });
    const dead = await send("dies");
    await expect.poll(async () => (await listed()).length, within).toBe(1);
    await stop();
    await client().pauseKey({ ...KEY, key: "adam", by: "ada" });
    const next = await send("waits", { customer: "adam" });
    await client().pauseKey({ ...KEY, key: "Ada", by: "ada" });
    const { results } = await client().search({ text: "ada" });
    const keys = results.filter(({ kind }) => kind === SearchKind.ORDER_KEY);
    expect(keys).toMatchObject([
      { value: ADA, name: "/orders", callId: BigInt(dead), jobId: 1n, origin: "webhook" },
      { value: "adam", callId: BigInt(next) },
    ]);
    expect((await command("find", "adam")).stdout).toMatch(/order key +\d+ .*orders .*\/orders: adam/);
    await client().resumeKey({ ...KEY, key: "adam", by: "ada" });
    const later = await startNoting();
    await expect.poll(() => later.bodies, within).toEqual(["waits"]);
    await later.stop();
  });
});

describe("The commands", () => {
  test("They pause a key, list it, show it in the status and resume it", async () => {
    await send("waits");
    const args = ["--refuse-accepts", "--reason", "too many", "--by", "ada"];
    expect((await command("pause-key", "orders", ADA, ...args)).stdout.split("\n")).toEqual([
      "The key is paused: no runner gets its JobCalls, and new requests with it are answered 503.",
      expect.stringMatching(/^To go on: .*jobgate.* resume-key \/orders ada-/),
      "",
    ]);
    expect((await command("held-keys")).stdout).toMatch(
      /\/orders +ada-\S+ +- +1 +\S+Z +ada +refused +too many/,
    );
    expect((await command("status")).stdout).toMatch(/needs you +1 key paused: .*held-keys/);
    expect((await command("resume-key", "/orders", ADA)).stdout).toBe("The key goes on.\n");
    expect((await command("held-keys")).stderr).toBe("There are none.\n");
    const { stop } = await startNoting();
    await stop();
  });

  test("They say which dead letter still holds the key, and which JobCall is out", async () => {
    const runner = await startRunner({ address: jobgate.runnerAddress, handle: "leave" });
    await send("is out");
    await runner.waitFor(1);
    expect((await command("pause-key", "/orders", ADA)).stdout).toContain(
      "A runner has one of its JobCalls, and may finish it.",
    );
    const { callId, leaseToken } = runner.calls[0] ?? expect.fail();
    const outcome = { case: "fail", value: { reason: "no ink" } } as const;
    await runner.nack({ nacks: [{ callId, leaseToken, outcome }] });
    await runner.stop();
    expect((await command("pause-key", "/orders", ADA)).stdout).toContain(
      `Dead letter ${callId} holds it up as well.`,
    );
    expect((await command("status")).stdout).toContain("1 key held by a dead letter: ");
    expect((await command("resume-key", "/orders", ADA)).stdout).toBe(
      `The key is resumed, but dead letter ${callId} holds it up: retry or drop the dead letter.\n`,
    );
  });

  test("An endpoint that is not there is refused with exit code 1, and a missing key with 2", async () => {
    expect(await command("pause-key", "/nothing", "key")).toMatchObject({ code: 1 });
    expect((await runHere("pause-key", "/orders")).code).toBe(2);
  });
});
