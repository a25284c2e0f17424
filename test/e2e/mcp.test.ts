import { create } from "@bufbuild/protobuf";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { expect, it } from "vitest";
import { ExtendRequestSchema, type JobCall } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { accounts } from "../helpers/accounts.ts";
import { eventually } from "../helpers/eventually.ts";
import { type RpcAnswer, sendRpc, sendText } from "../helpers/mcp.ts";
import { type MppChallenge, signChallenge } from "../helpers/mpp.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import type { JobOutcome } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startAnotherGateway } from "../x402/gateway-harness.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

/** Results by body; a job with another one is left to its test. */
const RESULTS: Record<string, JobOutcome> = {
  text: { body: Buffer.from("ready"), contentType: "text/plain" },
  json: { body: Buffer.from('{"sum":3}'), contentType: "application/json" },
  image: { body: Buffer.from([1, 2, 3]), contentType: "image/png" },
};
const unfinished = new Map<string, (outcome: JobOutcome) => void>();
const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "no rpc_url",
    // No test waits for the runner at a restart.
    edit: (config) => config.replace("[runner]", "[runner]\ndrain_secs = 0.2"),
    handle: (call) => {
      const body = Buffer.from(call.body).toString();
      return RESULTS[body] ?? new Promise((resolve) => unfinished.set(body, resolve));
    },
  }),
);

const url = () => `${gateway.jobgate.x402Url}/mcp`;
const rpc = async (method: string, params = {}, headers = {}) => {
  const { status, result, error } = await sendRpc(url(), method, params, headers);
  return {
    status,
    result: (result ?? {}) as Record<string, never> & { _meta: Record<string, unknown> },
    error,
  };
};
const call = async (body: string, meta: object = {}, more: object = {}) =>
  rpc("tools/call", { name: "job-1-0", arguments: { body }, _meta: meta, ...more });
/** Ends the job with this body, once the runner has it. */
const finish = async (body: string, result: string) => {
  await gateway.waitForJobs(body);
  await expect.poll(() => unfinished.has(body)).toBe(true);
  unfinished.get(body)?.({ body: Buffer.from(result), contentType: "text/plain" });
};
const payment = async () => ({ "x402/payment": (await gateway.sign()).payload });

it("Begins a session, and lists each job as a tool", async () => {
  const { headers, result } = await sendRpc(url(), "initialize", { protocolVersion: "2025-06-18" });
  expect(result).toMatchObject({
    protocolVersion: "2025-06-18",
    capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } },
    serverInfo: { name: expect.any(String), version: expect.any(String) },
  });
  const session = { "mcp-session-id": headers.get("mcp-session-id") ?? "" };
  const listed = await rpc("tools/list", {}, session);
  expect(listed.result.tools).toMatchObject([
    { name: "job-1-0", inputSchema: { type: "object" }, execution: { taskSupport: "optional" } },
    { name: "job-1-1" },
  ]);
  await gateway.restart();
  expect((await rpc("ping", {}, session)).result).toEqual({});
  const ended = await fetch(url(), { method: "DELETE", headers: session });
  expect([ended.status, (await rpc("ping", {}, session)).status]).toEqual([204, 404]);
});

it("A call without a payment returns the offers of both protocols, and each of them buys it", async () => {
  const { result } = await call("text");
  const { v2 } = { v2: await fetch(gateway.urlOf(), { method: "POST" }) };
  const { accepts } = decodePaymentRequiredHeader(v2.headers.get("payment-required") ?? "");
  expect(result).toMatchObject({
    isError: true,
    structuredContent: {
      x402Version: 2,
      accepts,
      resource: { url: "mcp://tool/job-1-0" },
      code: "payment_required",
    },
    _meta: { "org.paymentauth/payment-required": { httpStatus: 402, challenges: [{ method: "evm" }] } },
  });
  const [{ request, ...challenge }] = (
    result._meta["org.paymentauth/payment-required"] as { challenges: [MppChallenge & { request: object }] }
  ).challenges;
  const encoded = Buffer.from(JSON.stringify(request)).toString("base64url");
  const signed = await signChallenge({
    challenge: { ...challenge, request: encoded } as MppChallenge,
    account: accounts.payer,
  });
  const credential = { ...signed.credential, challenge: { ...challenge, request } };

  const wrong = await call("another body", { "org.paymentauth/credential": credential });
  expect(wrong.error).toMatchObject({ code: -32043, data: { httpStatus: 402, challenges: [{}] } });
  const expectChanges = await watchLedger(parts, gateway);
  const bought = await call("text", { "org.paymentauth/credential": credential });
  expect(bought.result).toMatchObject({
    content: [{ type: "text", text: "ready" }],
    _meta: { "org.paymentauth/receipt": { status: "success", method: "evm", challengeId: challenge.id } },
  });
  await expectChanges(ONE_PAID_JOB);

  const paid = await payment();
  const base64 = Buffer.from(JSON.stringify(paid["x402/payment"])).toString("base64");
  const byX402 = await call("json", paid);
  expect(byX402.result).toMatchObject({
    structuredContent: { sum: 3 },
    _meta: { "x402/payment-response": { success: true }, "jobgate/call": { call_id: expect.any(Number) } },
  });
  expect((await call("json", { "x402/payment": base64 })).result).toEqual(byX402.result);
  expect((await call("image", await payment())).result.content).toEqual([
    { type: "image", mimeType: "image/png", data: "AQID" },
  ]);
});

it("A client that pays over MPP gets its challenges as an error, and no challenge of another server passes", async () => {
  const { headers } = await sendRpc(url(), "initialize", {
    protocolVersion: "2025-11-25",
    capabilities: { experimental: { payment: {} } },
  });
  const session = { "mcp-session-id": headers.get("mcp-session-id") ?? "" };
  const asked = await rpc("tools/call", { name: "job-1-0", arguments: { body: "text" } }, session);
  expect(asked.error).toMatchObject({ code: -32042, data: { challenges: [{ method: "evm" }] } });
  const garbage = await call("text", { "org.paymentauth/credential": { challenge: "no" } });
  expect(garbage.error).toMatchObject({
    code: -32602,
    data: { code: "malformed_credential", challenges: [{ method: "evm" }] },
  });
  for (const credential of [null, 7, "%%", [], { challenge: null }, { challenge: { request: null } }])
    expect((await call("text", { "org.paymentauth/credential": credential })).error).toMatchObject({
      code: -32602,
      data: { code: "malformed_credential" },
    });
});

it("A long job is a task: it shows its state over a restart, only to who has its id, and then its result", async () => {
  const expectChanges = await watchLedger(parts, gateway);
  const { result } = await call("long", await payment(), { task: { ttl: 60_000 } });
  const { taskId } = result.task as unknown as { taskId: string };
  expect(result.task).toMatchObject({ status: "working", ttl: null, createdAt: expect.any(String) });
  await gateway.waitForJobs("long");
  await gateway.restart();
  expect((await rpc("tasks/get", { taskId })).result).toMatchObject({ taskId, status: "working" });
  const guessed = `${taskId.slice(0, -2)}AA`;
  for (const method of ["tasks/get", "tasks/result"])
    expect((await rpc(method, { taskId: guessed })).error).toMatchObject({ code: -32602 });

  for (const method of ["tasks/list", "tasks/cancel"])
    expect((await rpc(method, { taskId })).error).toMatchObject({ code: -32601 });

  await gateway.waitForJobs("long", 2);
  unfinished.get("long")?.({ body: Buffer.from("at last"), contentType: "text/plain" });
  expect((await rpc("tasks/result", { taskId })).result).toEqual({
    content: [{ type: "text", text: "at last" }],
    _meta: { "io.modelcontextprotocol/related-task": { taskId } },
  });
  expect((await rpc("tasks/get", { taskId })).result).toMatchObject({ status: "completed" });
  await expectChanges({ ...ONE_PAID_JOB, jobs: 2 });
});

it("Waits: three sessions with 8 waits each on one task take 20 places, and other buyers are served", async () => {
  const begun = await call("crowded", await payment(), { task: {} });
  const { taskId } = begun.result.task as unknown as { taskId: string };
  const sessions = await Promise.all(
    Array.from({ length: 3 }, async () => (await sendRpc(url(), "initialize")).headers.get("mcp-session-id")),
  );
  const answers: RpcAnswer[] = [];
  const waits: Promise<unknown>[] = [];
  for (const id of sessions) {
    const wait = () => sendRpc(url(), "tasks/result", { taskId }, { "mcp-session-id": id ?? "" });
    for (let n = 0; n < 8; n++) waits.push(wait().then((answer) => answers.push(answer)));
  }
  await eventually(() => expect(answers).toHaveLength(4));
  expect(new Set(answers.map(({ error }) => JSON.stringify(error?.data)))).toEqual(
    new Set(['{"code":"too_many_waits","retryable":true,"retry_after_secs":5}']),
  );

  const { payload } = await gateway.sign({ account: accounts.otherPayer });
  const others = await call("crowded too", { "x402/payment": payload }, { task: {} });
  const theirs = rpc("tasks/result", {
    taskId: (others.result.task as unknown as { taskId: string }).taskId,
  });
  await finish("crowded too", "served");
  expect((await theirs).result.content).toEqual([{ type: "text", text: "served" }]);
  // The buyer whose places are taken buys on, and reads results: only his waits end at once.
  const bought = await call("crowded as well", await payment());
  expect(bought.result).toMatchObject({ structuredContent: { status: "running" } });
  const { task_id } = bought.result.structuredContent as unknown as { task_id: string };
  await finish("crowded as well", "bought");
  const read = () => rpc("tasks/result", { taskId: task_id });
  await eventually(async () =>
    expect((await read()).result.content).toEqual([{ type: "text", text: "bought" }]),
  );
  const paid = await gateway.sign();
  const preferred = await gateway.send(paid, { body: "crowded at HTTP", headers: { prefer: "wait=60" } });
  expect(preferred.status).toBe(202);

  for (const body of ["crowded", "crowded at HTTP"]) await finish(body, "at last");
  await Promise.all(waits);
  expect(answers.slice(4).map(({ result }) => result?.content)).toEqual(
    Array.from({ length: 20 }, () => [{ type: "text", text: "at last" }]),
  );
});

it("An ended session is gone, whatever follows its ID", async () => {
  const { headers } = await sendRpc(url(), "initialize");
  const id = headers.get("mcp-session-id") ?? "";
  const withSession = (sent: string) => ({ "mcp-session-id": sent });
  expect((await rpc("ping", {}, withSession(`${id}.anything`))).status).toBe(404);
  expect((await fetch(url(), { method: "DELETE", headers: withSession(id) })).status).toBe(204);
  for (const sent of [id, `${id}.anything`, `${id}.`, `${id}, ${id}`])
    expect([sent, (await rpc("ping", {}, withSession(sent))).status]).toEqual([sent, 404]);
});

it("A call with a progress token streams the runner's progress, each value higher than the last, and then its result", async () => {
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 7,
    method: "tools/call",
    params: {
      name: "job-1-0",
      arguments: { body: "slow" },
      _meta: { progressToken: "p", ...(await payment()) },
    },
  });
  const response = await fetch(url(), {
    method: "POST",
    body,
    headers: { accept: "application/json, text/event-stream" },
  });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const [{ callId, leaseToken }] = (await gateway.waitForJobs("slow")) as [JobCall];
  const reader = (response.body as ReadableStream<Uint8Array>)
    .pipeThrough(new TextDecoderStream())
    .getReader();
  let text = "";
  /** Reports progress, and reads until the client is told. */
  const report = async (percent: number, message: string) => {
    const leases = [{ callId, leaseToken, progress: { percent, text: message } }];
    await gateway.runner.extend(create(ExtendRequestSchema, { leases }));
    while (!text.includes(`"message":"${message}"`)) text += (await reader.read()).value ?? "";
  };
  await report(0, "begun");
  await report(0, "going on");
  await report(40, "nearly");
  await report(10, "from the start");
  await report(100, "almost");
  unfinished.get("slow")?.({ body: Buffer.from("done"), contentType: "text/plain" });
  for (;;) {
    const { done, value = "" } = await reader.read();
    text += value;
    if (done) break;
  }
  const messages = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
  const step = 1 / 128;
  const values = [0, step, 40, 40 + step, 100];
  expect(messages.slice(0, -1)).toEqual(
    values.map((progress) => ({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { progressToken: "p", progress, total: 100, message: expect.any(String) },
    })),
  );
  expect(messages.at(-1)).toMatchObject({ id: 7, result: { content: [{ type: "text", text: "done" }] } });
});

it("Pages of other origins are refused, and so is a session that another origin began", async () => {
  const begin = (origin: string) =>
    sendRpc(url(), "initialize", { protocolVersion: "2025-11-25" }, { origin });
  expect((await begin("https://evil.example")).status).toBe(403);
  const { status, headers } = await begin("http://localhost:3000");
  expect(status).toBe(200);
  const session = { "mcp-session-id": headers.get("mcp-session-id") ?? "" };
  const ping = (origin: string) => rpc("ping", {}, { ...session, origin });
  expect((await ping("http://localhost:3000")).status).toBe(200);
  expect((await ping("http://localhost:3001")).status).toBe(404);
  expect((await ping("https://evil.example")).status).toBe(403);
  const end = async (origin: string) =>
    (await fetch(url(), { method: "DELETE", headers: { ...session, origin } })).status;
  expect([await end("https://evil.example"), await end("http://localhost:3001")]).toEqual([403, 404]);
  for (const origin of ["null", "http://localhost.evil.example", "http://localhost:3000@evil.example"])
    expect([origin, (await begin(origin)).status]).toEqual([origin, 403]);
  // Where jobgate is published.
  expect((await begin("http://127.0.0.1:8402")).status).toBe(200);
  expect((await ping("http://localhost:3000")).status).toBe(200);
});

it("Garbage is refused, and nothing is paid", async () => {
  const { result } = await call("text", await payment(), { task: {} });
  const { taskId } = result.task as unknown as { taskId: string };
  expect((await rpc("tasks/result", { taskId })).error).toBeUndefined();
  const expectChanges = await watchLedger(parts, gateway);
  const nested = `${"[".repeat(10_000)}${"]".repeat(10_000)}`;
  const deep = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x402/payment":${nested}}}}`;
  for (const body of [
    "",
    "no",
    "[]",
    "1",
    "null",
    '{"jsonrpc":"1.0"}',
    '{"jsonrpc":"2.0","id":{},"method":"ping"}',
    nested,
    deep,
  ])
    expect(await sendText(url(), body)).toMatchObject({ status: 400, error: { code: expect.any(Number) } });
  for (const [method, params] of [
    ["tools/none", {}],
    ["tools/call", { name: "none" }],
    ["tools/call", { name: "__proto__" }],
    ["tools/call", { name: "job-1-0", arguments: [] }],
    ["tools/call", { name: "job-1-0", arguments: { body: 7 } }],
    ["tasks/get", { taskId: "1" }],
  ] as const)
    expect((await rpc(method, params)).error).toMatchObject({ code: expect.any(Number) });
  const name = "job-1-0";
  for (const [method, params] of [
    ["tasks/get", { taskId: [taskId] }],
    ["tasks/get", { taskId: { taskId } }],
    ["tasks/get", { taskId: 1 }],
    ["tasks/get", {}],
    ["tasks/result", { taskId: [taskId] }],
    ["tasks/result", { taskId: null }],
    ["tools/list", { cursor: 0 }],
    ["tools/list", { cursor: ["0"] }],
    ["tools/list", { cursor: "0x0" }],
    ["tools/list", { cursor: "" }],
    ["tools/list", { cursor: null }],
    ["tools/call", {}],
    ["tools/call", { name: [name] }],
    ["tools/call", { name, arguments: null }],
    ["tools/call", { name, arguments: { body: ["text"] } }],
    ["tools/call", { name, task: true }],
    ["tools/call", { name, task: null }],
    ["tools/call", { name, task: { ttl: "1" } }],
    ["tools/call", { name, _meta: { "jobgate/headers": ["x"] } }],
    ["tools/call", { name, _meta: { "jobgate/headers": { "x-x402-quote-digest": 1 } } }],
    ["tools/call", { name, _meta: { "jobgate/headers": { "callback-url": ["https://a.example"] } } }],
    ["tools/call", { name, _meta: { "org.paymentauth/credential": null } }],
    ["tools/call", { name, _meta: { "org.paymentauth/credential": ["x"] } }],
    ["tools/call", { name, _meta: { "org.paymentauth/credential": { challenge: null } } }],
    ["initialize", { protocolVersion: 1 }],
    ["initialize", { capabilities: [] }],
    ["initialize", { capabilities: null }],
    ["initialize", { capabilities: { experimental: 1 } }],
    ["initialize", { capabilities: { experimental: { payment: "yes" } } }],
    ["ping", { _meta: null }],
    ["ping", { _meta: { progressToken: ["p"] } }],
  ] as const) {
    const { headers, error } = await sendRpc(url(), method, params);
    expect([method, params, error?.code]).toEqual([method, params, -32602]);
    expect(headers.get("mcp-session-id")).toBeNull();
  }
  const { v1, good } = { v1: { x402Version: 1 }, good: (await payment())["x402/payment"] };
  for (const wrong of [7, "%%", "bm8=", {}, [], v1, { ...good, payload: {} }]) {
    expect((await call("text", { "x402/payment": wrong })).result.structuredContent).toMatchObject({
      code: "invalid_payment",
      charged: false,
    });
  }
  for (const method of ["GET", "PUT", "HEAD"]) expect((await fetch(url(), { method })).status).toBe(405);
  await expectChanges({});
});

it("No other path than /mcp, no query, and no other name of a tool leads to a job", async () => {
  const expectChanges = await watchLedger(parts, gateway);
  const meta = await payment();
  const params = { name: "job-1-0", arguments: { body: "text" }, _meta: meta };
  const message = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  for (const path of ["/mcp/", "//mcp", "/%6dcp", "/MCP", "/mcp%2F", "/mcp/job-1-0", "/x402/../mcp"]) {
    const { status } = await rawRequest(gateway.jobgate.x402Url, `POST ${path}`, {}, message);
    expect([path, status]).toEqual([path, 404]);
  }
  for (const name of [
    "job-01-0",
    "job-1-00",
    "job-1-+0",
    "job-1-0 ",
    "JOB-1-0",
    "job-1-4294967296",
    "job-1-9",
  ]) {
    const { error } = await rpc("tools/call", { ...params, name });
    expect([name, error?.code]).toEqual([name, -32602]);
  }
  expect((await fetch(url(), { method: "OPTIONS" })).status).toBe(204);
  const { result } = await sendRpc(`${url()}?utm=x`, "tools/call", params);
  expect(result).toMatchObject({ isError: true, structuredContent: { code: "query_not_allowed" } });
  await expectChanges({});
  expect((await rpc("tools/call", params)).result).toMatchObject({ content: [{ text: "ready" }] });
  await expectChanges(ONE_PAID_JOB);
});

it("Without [mcp] there is nothing at /mcp", async () => {
  const shop = await startAnotherGateway();
  expect((await sendRpc(`${shop.url}/mcp`, "ping")).status).toBe(404);
});
