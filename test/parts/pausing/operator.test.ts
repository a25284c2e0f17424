import { afterEach, describe, expect, test, vi } from "vitest";
import { createOperatorClient } from "../../../src/commands/operator-client.ts";
import { findNamed, pausablesOf } from "../../../src/parts/pausing/pauses.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { configOf, TOKEN, X402 } from "../../config/config-folder.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { startRunner } from "../../helpers/runner.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";

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
path = "/hooks/a"
name = "orders"
job_id = 1
auth = "none"
[[webhooks.endpoints]]
path = "/hooks/b"
name = "returns"
job_id = 1
auth = "none"
[[webhooks.endpoints]]
path = "/hooks/c"
name = "returns"
job_id = 3
auth = "bearer"
secret = "a-secret-of-the-sender"
`;

const jobgate = startBeforeAll(() => startEmbeddedJobgate({ config: CONFIG }));
const client = () => createOperatorClient({ address: { url: jobgate.operatorUrl } });
const command = (...args: string[]) => runHere(...args, "--target", jobgate.operatorUrl);
const send = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${jobgate.webhooksUrl}${path}`, { method: "POST", body: "event", headers });
const auditOf = (text: string) =>
  jobgate.logs.flatMap((line) => {
    const { msg, level: _, time: __, ...fields } = JSON.parse(line);
    return msg === text ? [fields] : [];
  });

afterEach(async () => {
  vi.unstubAllEnvs();
  for (const { kind, key } of (await client().getTotals({})).paused)
    await client().resume({ target: `${kind}:${key}`, by: "afterwards" });
});

test("A job is paused by its name, title or route, or by a method of the route with its path", async () => {
  const config = await configOf(`${X402}${TOKEN}
[[jobs]]
route = "GET|POST /words"
title = "Words of a text"
mode = "public_paid"
price_wei = "1000000000000000"
[[jobs]]
route = "GET /letters"
mode = "public_paid"
price_wei = "1000000000000000"
`);
  const all = pausablesOf(config);
  const found = (text: string) => findNamed(all, text).map(({ name }) => name);
  for (const text of ["Words of a text", "GET|POST /words", "POST /words", "job:GET /words"])
    expect(found(text), text).toEqual(["Words of a text"]);
  expect(found("GET /letters")).toEqual(["GET /letters"]);
  expect(found("POST /letters")).toEqual([]);
});

test("An empty text names no endpoint, although an endpoint has no name", () => {
  const endpoint = { kind: "endpoint", key: "/hooks/a", name: "" } as const;
  expect(["", "endpoint:", "/hooks/a"].map((text) => findNamed([endpoint], text))).toEqual([
    [],
    [],
    [endpoint],
  ]);
});

describe("A paused webhook endpoint", () => {
  test("Its events are accepted and wait for their runner until it is resumed", async () => {
    const runner = await startRunner({ address: jobgate.runnerAddress });
    await client().pause({ target: "/hooks/c", by: "ada" });
    expect((await send("/hooks/c", { authorization: "Bearer a-secret-of-the-sender" })).status).toBe(202);
    const other = (await (await send("/hooks/a")).json()) as { call_id: number };
    await until(() => runner.calls.some(({ callId }) => Number(callId) === other.call_id));
    expect(runner.calls.map(({ jobId }) => jobId)).not.toContain(3n);
    await client().resume({ target: "/hooks/c", by: "ada" });
    await until(() => runner.calls.some(({ jobId }) => jobId === 3n));
    await runner.stop();
  });

  test("The call of an event that waits names the pause, and a call that is done names none", async () => {
    const runner = await startRunner({ address: jobgate.runnerAddress, subscriber: "ends" });
    const done = (await (await send("/hooks/a")).json()) as { call_id: number };
    await until(() => runner.calls.some(({ callId }) => Number(callId) === done.call_id));
    const reasons = async ({ call_id }: { call_id: number }) =>
      (await client().getCall({ callId: BigInt(call_id) })).waitReasons;
    await client().pause({ target: "/hooks/a", by: "ada", note: "no ink" });
    const waits = (await (await send("/hooks/a")).json()) as { call_id: number };
    expect(await reasons(waits)).toEqual(["Webhook endpoint orders is paused by ada (no ink): resume it."]);
    await until(async () => (await reasons(done)).length === 0);
    await client().resume({ target: "/hooks/a", by: "ada" });
    await until(() => runner.calls.some(({ callId }) => Number(callId) === waits.call_id));
    await runner.stop();
  });

  test("If its accepts are refused, it answers authentic events 503 with a time to come back, and others 401", async () => {
    await client().pause({ target: "/hooks/c", by: "ada", refuseAccepts: true });
    expect((await send("/hooks/c")).status).toBe(401);
    const refused = await send("/hooks/c", { authorization: "Bearer a-secret-of-the-sender" });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "60"]);
    expect(await refused.json()).toMatchObject({ code: "job_paused" });
    expect((await send("/hooks/a")).status).toBe(202);
    await client().pause({ target: "/hooks/c", by: "ada" });
    expect((await send("/hooks/c", { authorization: "Bearer a-secret-of-the-sender" })).status).toBe(202);
  });
});

describe("The operator's API", () => {
  test("Everything that can be paused is listed, with what waits as well because it has the same job ID", async () => {
    await client().pause({ target: "/hooks/a", by: "ada", note: "no ink" });
    const { pausables } = await client().listPausables({});
    expect(pausables).toMatchObject([
      { kind: "endpoint", key: "/hooks/a", name: "orders", jobIds: [1n], sharedWith: ["endpoint:/hooks/b"] },
      { kind: "endpoint", key: "/hooks/b", sharedWith: ["endpoint:/hooks/a"], removed: false },
      { kind: "endpoint", key: "/hooks/c", sharedWith: [] },
    ]);
    expect(pausables.map(({ pause }) => pause && [pause.by, pause.note, pause.refusesAccepts])).toEqual([
      ["ada", "no ink", false],
      undefined,
      undefined,
    ]);
  });

  test("Each decision is logged with who made it and why", async () => {
    await client().pause({ target: "orders", by: "ada", note: "no ink", refuseAccepts: true });
    await client().resume({ target: "orders", by: "bob" });
    const paused = { paused: "endpoint:/hooks/a", by: "ada", note: "no ink", refusesAccepts: true };
    expect(auditOf("paused by the operator").at(-1)).toMatchObject(paused);
    expect(auditOf("resumed by the operator").at(-1)).toMatchObject({
      resumed: "endpoint:/hooks/a",
      by: "bob",
    });
  });

  test.each([
    [
      "nothing",
      { target: "/hooks/z", by: "ada" },
      'There is no job, webhook endpoint or API "/hooks/z" in the configuration.',
    ],
    [
      "a job that only webhooks have",
      { target: "1/3", by: "ada" },
      'There is no job, webhook endpoint or API "1/3" in the configuration. Its JobCalls come from endpoint:/hooks/c: pause that.',
    ],
    ["several", { target: "returns", by: "ada" }, "endpoint:/hooks/b, endpoint:/hooks/c"],
    ["no operator", { target: "/hooks/a", by: " " }, "by: expected the operator's name"],
    [
      "too much",
      { target: "/hooks/a", by: "ada", note: "x".repeat(2_001) },
      "note: expected at most 2000 characters",
    ],
  ])("A request to pause that names %s is refused, and nothing is paused", async (_, request, message) => {
    await expect(client().pause(request)).rejects.toThrow(message);
    expect((await client().getTotals({})).paused).toEqual([]);
  });

  test("What is not paused cannot be resumed", async () => {
    await expect(client().resume({ target: "/hooks/a", by: "ada" })).rejects.toThrow(
      'Nothing named "/hooks/a" is paused.',
    );
  });
});

describe("The commands", () => {
  test("They pause, list, show in the status and resume", async () => {
    const paused = await command("pause", "orders", "--refuse-accepts", "--reason", "no ink", "--by", "ada");
    expect(paused.stdout.split("\n")).toEqual([
      "endpoint /hooks/a (orders) is paused: no runner gets its JobCalls, and new requests are answered 503.",
      "JobCalls of endpoint:/hooks/b wait as well, because they have the same job ID.",
      expect.stringMatching(/^To go on: .*jobgate.* resume \/hooks\/a$/),
      "",
    ]);
    expect((await command("paused")).stdout).toMatch(
      /endpoint +\/hooks\/a +orders +\S+Z +refused +ada +no ink/,
    );
    expect((await command("status")).stdout).toMatch(
      /needs you +endpoint \/hooks\/a \(orders\) is paused since \S+ by ada \(no ink\); new requests are refused: /,
    );
    expect((await command("resume", "/hooks/a")).stdout).toBe("endpoint /hooks/a (orders) goes on.\n");
    expect((await command("paused")).stderr).toBe("There are none.\n");
    expect((await command("status")).stdout).not.toContain("is paused");
  });

  test("Something that is not there is refused with exit code 1, and nothing named with 2", async () => {
    expect(await command("pause", "nothing")).toMatchObject({ code: 1 });
    expect((await runHere("pause")).code).toBe(2);
  });
});

test("A pause is a sample of a gauge while it lasts", async () => {
  const read = async () => (await fetch(`${jobgate.operatorUrl}/metrics`)).text();
  await client().pause({ target: "/hooks/a", by: "ada" });
  expect(await read()).toContain('jobgate_paused{kind="endpoint",key="/hooks/a",accepts="go_on"} 1');
  await client().pause({ target: "/hooks/a", by: "ada", refuseAccepts: true });
  expect(await read()).toContain('jobgate_paused{kind="endpoint",key="/hooks/a",accepts="refused"} 1');
  await client().resume({ target: "/hooks/a", by: "ada" });
  expect(await read()).not.toContain("jobgate_paused{");
});

test("Pauses outlive a restart and a reload that removes their endpoint", async () => {
  const { mkdtemp, rm } = await import("node:fs/promises");
  const { tmpdir } = await import("node:os");
  const folder = await mkdtemp(`${tmpdir()}/jobgate-pausing-`);
  const first = await startEmbeddedJobgate({ config: CONFIG, folder });
  const operator = (url: string) => createOperatorClient({ address: { url } });
  await operator(first.operatorUrl).pause({ target: "/hooks/a", by: "ada", refuseAccepts: true });
  await first.stop();

  const second = await startEmbeddedJobgate({ config: CONFIG, folder });
  const post = (path: string) => fetch(`${second.webhooksUrl}${path}`, { method: "POST", body: "event" });
  expect((await post("/hooks/a")).status).toBe(503);
  expect((await post("/hooks/b")).status).toBe(202);
  await second.stop();

  const without = CONFIG.replace(/\[\[webhooks.endpoints\]\]\npath = "\/hooks\/a"[^[]*/, "");
  const third = await startEmbeddedJobgate({ config: without, folder });
  const { paused } = await operator(third.operatorUrl).getTotals({});
  expect(paused).toMatchObject([{ key: "/hooks/a", removed: true, jobIds: [1n] }]);
  const runner = await startRunner({ address: third.runnerAddress });
  await operator(third.operatorUrl).resume({ target: "/hooks/a", by: "ada" });
  // The event of the endpoint with the same job ID has waited with it.
  await until(() => runner.calls.length === 1);
  await runner.stop();
  await third.stop();
  await rm(folder, { recursive: true });
});
