import { afterEach, describe, expect, test } from "vitest";
import { createOperatorClient } from "../../../src/commands/operator-client.ts";
import { CallState } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import type { JobCall } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { Fail } from "../../../src/runner/job.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { callJson } from "../../helpers/operator.ts";
import { startRunner } from "../../helpers/runner.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const CONFIG = `
service_id = 5
[store]
url = "sqlite:jobgate.db"
max_pending = 4
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 1
auth = "none"
forward_headers = ["X-Order"]
dedupe = { header = "body" }
`;
const GONE = '[[webhooks.endpoints]]\npath = "/hooks/gone"\njob_id = 9\nauth = "none"\n';

const jobgate = startBeforeAll(() => startEmbeddedJobgate({ config: CONFIG + GONE }));
const client = () => createOperatorClient({ address: { url: jobgate.operatorUrl } });
const command = (...args: string[]) => runHere(...args, "--target", jobgate.operatorUrl);
const SIGNED = { by: "ada", note: "the runner had an old model" };
let sent = 0;
let keys = 0;

async function send(path = "/hooks/a"): Promise<bigint> {
  const headers = { "content-type": "text/x-order", "x-order": `order ${++sent}` };
  const answer = await fetch(`${jobgate.webhooksUrl}${path}`, {
    method: "POST",
    body: `event ${sent}`,
    headers,
  });
  return BigInt(((await answer.json()) as { call_id: number }).call_id);
}
const resend = (callId: bigint, requestKey = `key-${++keys}`) =>
  client().resendCall({ callId, requestKey, ...SIGNED });
async function reload(config: string, endpoints: number): Promise<void> {
  await jobgate.reload(config);
  await expect.poll(async () => (await client().listEndpoints({})).endpoints.length).toBe(endpoints);
}
const auditOf = () =>
  jobgate.logs.flatMap((line) => {
    const { msg, level: _, time: __, ...fields } = JSON.parse(line);
    return msg === "call resent by the operator" ? [fields] : [];
  });
const listed = async () => (await client().listCalls({ state: CallState.READY })).calls.length;

/** Has a runner do all calls that wait. */
async function drain(): Promise<readonly JobCall[]> {
  const waiting = await listed();
  const runner = await startRunner({ address: jobgate.runnerAddress });
  const calls = await runner.waitFor(waiting);
  await expect.poll(() => runner.done.length).toBe(waiting);
  await runner.stop();
  return calls;
}

afterEach(async () => {
  for (const { kind, key } of (await client().getTotals({})).paused)
    await client().resume({ target: `${kind}:${key}`, by: "afterwards" });
  await drain();
});

describe("A resent call", () => {
  test("Its runner gets body, metadata and headers of the first call, and the ID of the first call", async () => {
    const first = await send();
    const { callId } = await resend(first);
    const { call: listed, payment } = await client().getCall({ callId });
    expect([listed?.origin, listed?.serviceId, listed?.jobId, payment]).toEqual([
      "operator",
      5n,
      1n,
      undefined,
    ]);
    const [one, other] = await drain();
    expect([one?.callId, other?.callId, other?.attempt]).toEqual([first, callId, 1]);
    expect(Buffer.from(other?.body ?? []).toString()).toBe(`event ${sent}`);
    expect(other?.metadata).toEqual({
      ...one?.metadata,
      "X-CHAIN-CALL-ID": String(callId),
      "X-OPERATOR-ORIGIN": "operator",
      "X-OPERATOR-RESENT-CALL-ID": String(first),
    });
    expect(other?.metadata["X-HTTP-X-ORDER"]).toBe(`order ${sent}`);
  });

  test("It can be resent, and names the call that it was resent from", async () => {
    const first = await send();
    const second = (await resend(first)).callId;
    await resend(second);
    const calls = await drain();
    expect(calls.map(({ metadata }) => metadata["X-OPERATOR-RESENT-CALL-ID"])).toEqual([
      undefined,
      String(first),
      String(second),
    ]);
  });

  test("A dead letter stays a dead letter, and its repeated delivery is still answered with its ID", async () => {
    const callId = await send();
    const runner = await startRunner({
      address: jobgate.runnerAddress,
      handle: () => {
        throw new Fail("no ink");
      },
    });
    await expect.poll(async () => (await client().getCall({ callId })).call?.state).toBe(CallState.DEAD);
    await runner.stop();
    const before = await client().getCall({ callId });
    await resend(callId);
    expect((await client().getCall({ callId })).timeline).toEqual(before.timeline);
    const again = await fetch(`${jobgate.webhooksUrl}/hooks/a`, { method: "POST", body: `event ${sent}` });
    expect(await again.json()).toMatchObject({ call_id: Number(callId) });
    await client().dropDeadLetters({ callIds: [callId] });
  });

  test("Two requests with one key make one call, and are logged once with who sent them and why", async () => {
    const first = await send();
    const audited = auditOf().length;
    const answers = await Promise.all([resend(first, "twice"), resend(first, "twice")]);
    expect(new Set(answers.map(({ callId }) => callId)).size).toBe(1);
    expect(answers.map(({ isNew }) => isNew).sort()).toEqual([false, true]);
    expect(await listed()).toBe(2);
    expect(auditOf().slice(audited)).toMatchObject([
      { ...SIGNED, callId: Number(answers[0]?.callId), resent: Number(first), job: "5/1", origin: "webhook" },
    ]);
    await expect(resend(await send(), "twice")).rejects.toThrow(
      "request_key: another call was resent with it.",
    );
  });
});

describe("A repeated request key", () => {
  test("It returns the first answer while the job is paused, and when the call or its job is gone", async () => {
    const callId = await send("/hooks/gone");
    const other = await send();
    const made = await resend(callId, "repeated");
    await client().pause({ target: "/hooks/gone", by: "ada", refuseAccepts: true });
    const again = { callId: made.callId, isNew: false };
    expect(await resend(callId, "repeated")).toMatchObject(again);
    await client().resume({ target: "/hooks/gone", by: "ada" });
    await reload(CONFIG, 1);
    expect(await resend(callId, "repeated")).toMatchObject(again);
    await drain();
    expect(await resend(callId, "repeated")).toMatchObject(again);
    await expect(resend(other, "repeated")).rejects.toThrow("The body of call");
    await reload(CONFIG + GONE, 2);
  });
});

describe("A resend is refused", () => {
  test("for a call that never was, and for a call whose body was forgotten when it was done", async () => {
    await expect(resend(999_999n)).rejects.toThrow("[not_found] There is no call with call id 999999.");
    const callId = await send();
    await drain();
    await expect(resend(callId)).rejects.toThrow(
      `[failed_precondition] The body of call ${callId} is not kept: it was forgotten when the call ended.`,
    );
  });

  test("while the queue is full", async () => {
    const callId = await send();
    for (let n = 0; n < 3; n++) await send();
    await expect(resend(callId)).rejects.toThrow(
      "[unavailable] The queue is full: store.max_pending is reached.",
    );
  });

  test("while its job is paused and refuses new calls; if the job only is paused, the call waits", async () => {
    const callId = await send();
    await client().pause({ target: "/hooks/a", by: "ada" });
    expect((await resend(callId)).isNew).toBe(true);
    await client().pause({ target: "/hooks/a", by: "ada", refuseAccepts: true });
    await expect(resend(callId)).rejects.toThrow("[unavailable] The job is paused: try again later.");
  });

  test("once its job has left the configuration", async () => {
    const callId = await send("/hooks/gone");
    expect((await resend(callId)).isNew).toBe(true);
    await reload(CONFIG, 1);
    await expect(resend(callId)).rejects.toThrow(
      `[failed_precondition] The job of call ${callId}, 5/9, is not in the configuration.`,
    );
    await reload(CONFIG + GONE, 2);
  });

  test.each([
    ["no name", { by: " " }, "by: expected the operator's name"],
    ["no reason", { note: "" }, "note: expected a reason"],
    ["no request key", { request_key: "" }, "request_key: expected 1 to 64 printable characters"],
    ["a field that is unknown", { to: "other" }, 'key "to" is unknown'],
  ])("with %s, and nothing is sent", async (_, wrong, message) => {
    const callId = String(await send());
    const request = { call_id: callId, request_key: "key", ...SIGNED, ...wrong };
    const { status, answer } = await callJson(jobgate.operatorUrl, "ResendCall", request);
    expect(status).toBe(400);
    expect(answer.message).toContain(message);
    expect(await listed()).toBe(1);
  });
});

describe("jobgate jobs resend", () => {
  test("The new call is printed with the command that follows it, and a repeat with its key prints the same call", async () => {
    const callId = String(await send());
    const args = ["jobs", "resend", callId, "--by", "ada", "--note", "again"];
    const { code, stdout } = await command(...args, "--request-key", "a-key");
    expect(code).toBe(0);
    const [, made] =
      /^Call \d+ was resent as call (\d+)\. To follow call \1: .*jobs show \1\n$/.exec(stdout) ?? [];
    expect(Number(made)).toBeGreaterThan(Number(callId));
    expect((await command(...args, "--request-key", "a-key")).stdout).toBe(
      `Call ${callId} was resent as call ${made} before, with this request key.\n`,
    );
    expect((await command("jobs", "list", "--origin", "operator", "--state", "ready")).stdout).toContain(
      made,
    );
    // Each command without a key makes a call.
    await command(...args);
    expect(await listed()).toBe(3);
  });
});
