import { expect, it } from "vitest";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { eventually } from "../../helpers/eventually.ts";
import { sendRpc, sendText } from "../../helpers/mcp.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne } from "../../store/store-fixtures.ts";
import type { TestGateway } from "../../x402/gateway-harness.ts";
import { Agent, messageOf, paymentFor, startShop } from "./agent.ts";

const parts = startBeforeAll(startPaidParts);

/** Sends a message, and reads the results of the stream as they come. */
async function* stream({ url }: TestGateway, method: string, params: object) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 7, method, params });
  const response = await fetch(`${url}/a2a`, { method: "POST", body });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  let text = "";
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece;
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) {
      const { id, result } = JSON.parse(event.slice("data: ".length));
      expect(id).toBe(7);
      yield result;
    }
  }
}

async function all<One>(stream: AsyncIterable<One>): Promise<One[]> {
  const found: One[] = [];
  for await (const one of stream) found.push(one);
  return found;
}

it("A stream in version 0.3 has the task, its progress, its result and its end", async () => {
  const shop = await startShop(parts);
  const agent = new Agent(shop);
  const unpaid = await all(
    stream(shop, "message/stream", { message: messageOf({ metadata: { skillId: "job-1-0" } }) }),
  );
  expect(unpaid).toMatchObject([{ kind: "task", status: { state: "input-required" } }]);
  const [task] = unpaid;
  const message = messageOf(await paymentFor(task));
  const results = stream(shop, "message/stream", { message });
  expect((await results.next()).value).toMatchObject({
    kind: "task",
    id: task.id,
    status: { state: "working" },
  });
  const call = await claimOne(shop.store);
  await shop.store.extend(call, 60_000, { percent: 40, text: "reading" });
  const ids = { taskId: task.id, contextId: task.contextId };
  expect((await results.next()).value).toMatchObject({
    ...{ kind: "status-update", ...ids, final: false },
    status: {
      state: "working",
      message: {
        parts: [{ kind: "text", text: "reading" }],
        metadata: { "jobgate/progress": { percent: 40, text: "reading" } },
      },
    },
  });
  await shop.store.ack(call, { body: Buffer.from('{"sum":3}'), contentType: "application/json" });
  expect(await all(results)).toMatchObject([
    {
      kind: "artifact-update",
      ...ids,
      artifact: { parts: [{ kind: "data", data: { sum: 3 } }] },
      lastChunk: true,
    },
    { kind: "status-update", ...ids, final: true, status: { state: "completed" } },
  ]);
  expect(await all(stream(shop, "tasks/resubscribe", { id: task.id }))).toMatchObject([
    { kind: "task" },
    { kind: "artifact-update" },
    { kind: "status-update", final: true },
  ]);
  expect((await agent.get(task.id)).status.state).toBe("completed");
});

it("A stream in version 1.0 has the results under their names, and a stream of a paid task can be had again", async () => {
  const shop = await startShop(parts);
  const agent = new Agent(shop);
  const task = await agent.ask();
  const message = messageOf(await paymentFor(task));
  const results = stream(shop, "SendStreamingMessage", { message });
  expect((await results.next()).value).toMatchObject({
    task: { id: task.id, status: { state: "TASK_STATE_WORKING", message: { role: "ROLE_AGENT" } } },
  });
  const again = stream(shop, "SubscribeToTask", { id: task.id });
  expect((await again.next()).value).toMatchObject({ task: { id: task.id } });
  await eventually(async () =>
    shop.store.ack(await claimOne(shop.store), { body: Buffer.from("done"), contentType: "text/plain" }),
  );
  const end = [
    { artifactUpdate: { taskId: task.id, artifact: { parts: [{ text: "done" }] } } },
    { statusUpdate: { taskId: task.id, status: { state: "TASK_STATE_COMPLETED" } } },
  ];
  expect(await all(results)).toMatchObject(end);
  expect(await all(again)).toMatchObject(end);
});

it("A refused stream is an error as JSON, in the words of the same refusal without a stream", async () => {
  const shop = await startShop(parts);
  const params = { message: messageOf({ metadata: { skillId: "job-1-2" } }) };
  const [streamed, sent] = [
    await sendRpc(`${shop.url}/a2a`, "message/stream", params),
    await sendRpc(`${shop.url}/a2a`, "message/send", params),
  ];
  expect(streamed.headers.get("content-type")).toBe("application/json");
  expect(streamed.error).toEqual(sent.error);
  expect(sent.error).toMatchObject({ code: -32602 });
});

it("A request that is not A2A is refused with what was expected", async () => {
  const shop = await startShop(parts);
  const url = `${shop.url}/a2a`;
  const request = { jsonrpc: "2.0", id: 1, method: "tasks/get", params: { id: "1" } };
  for (const [body, code, message] of [
    ["{", -32700, "not JSON"],
    ["", -32700, "not JSON"],
    ["7", -32600, "not one JSON-RPC 2.0 message"],
    [JSON.stringify([request]), -32600, "without a batch"],
    [JSON.stringify({ ...request, id: undefined }), -32600, "no id"],
    [JSON.stringify({ ...request, method: undefined }), -32600, "no method"],
    [JSON.stringify(request).replace('"id":1', '"id":12345678901234567890'), -32600, "Its id is not"],
    [JSON.stringify({ ...request, method: "tasks/forget" }), -32601, "expected one of message/send"],
    [JSON.stringify({ ...request, params: {} }), undefined, "params.id"],
    [JSON.stringify({ ...request, params: { id: ["1"] } }), undefined, "params.id"],
    [JSON.stringify({ ...request, method: "__proto__" }), -32601, "no method"],
    [`${'{"a":'.repeat(1_000)}1${"}".repeat(1_000)}`, -32600, "nested"],
  ] as const) {
    const { status, error } = await sendText(url, body);
    const isParams = code === undefined;
    expect([status, error]).toMatchObject([
      isParams ? 200 : 400,
      { code: code ?? -32602, message: expect.stringContaining(message) },
    ]);
  }
  const huge = await sendText(url, JSON.stringify({ ...request, params: { id: "x".repeat(100_000) } }));
  expect([huge.status, huge]).toMatchObject([413, { code: "body_too_large" }]);
  expect((await fetch(url)).status).toBe(405);
});

it("Methods that are not supported say so, and so does an unknown version", async () => {
  const shop = await startShop(parts);
  const codeOf = async (method: string, version = "1.0") => {
    const { status, error } = await sendRpc(
      `${shop.url}/a2a`,
      method,
      { id: "1" },
      { "a2a-version": version },
    );
    return [status, error?.code];
  };
  for (const method of ["tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig"])
    expect(await codeOf(method)).toEqual([200, -32003]);
  expect(await codeOf("ListTasks")).toEqual([200, -32004]);
  expect(await codeOf("GetExtendedAgentCard")).toEqual([200, -32007]);
  expect(await codeOf("GetTask", "0.3.0")).toEqual([200, -32001]);
  expect(await codeOf("GetTask", "2.0")).toEqual([400, -32009]);
});

it("A stream of a paid task that finds no place shows the task, and a stream that only follows is refused", async () => {
  const shop = await startShop(parts);
  const agent = new Agent(shop);
  const task = await agent.ask();
  const { id } = await agent.send(await paymentFor(task), { blocking: false });
  const left = new AbortController();
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tasks/resubscribe", params: { id } });
  const follow = async ({ signal }: AbortController) => {
    const { headers } = await fetch(`${shop.url}/a2a`, { method: "POST", body, signal });
    return headers.get("content-type");
  };
  await Promise.all(Array.from({ length: 20 }, () => follow(left)));
  const { error } = await agent.call("tasks/resubscribe", { id });
  expect(error).toMatchObject({ data: { code: "too_many_waits", retryable: true } });
  const message = messageOf({ taskId: id });
  expect(await all(stream(shop, "message/stream", { message }))).toMatchObject([{ kind: "task", id }]);
  expect((await agent.send({ taskId: id })).status.state).toBe("working");
  left.abort();
  const next = new AbortController();
  await eventually(async () => expect(await follow(next)).toContain("text/event-stream"));
  next.abort();
});
