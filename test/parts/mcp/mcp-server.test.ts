import { fromBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import { GatewayError, UnknownOutcomeError } from "../../../src/core/errors.ts";
import { JobCallSchema } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { Mcp } from "../../../src/parts/mcp/mcp.ts";
import type { LoadX402Parts } from "../../../src/x402/part.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { eventually } from "../../helpers/eventually.ts";
import { sendRpc, sendText } from "../../helpers/mcp.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne } from "../../store/store-fixtures.ts";
import { startAnotherGateway, type TestGateway } from "../../x402/gateway-harness.ts";
import { JOB } from "../../x402/payments.ts";
import { soldByMcp } from "./tables.ts";

const parts = startBeforeAll(startPaidParts);
const startShop = ({ jobs, ...options }: { readonly parts?: LoadX402Parts; readonly jobs?: Job[] } = {}) =>
  startAnotherGateway({
    config: { facilitatorUrl: parts.facilitator.url, parts: soldByMcp(), ...(jobs && { jobs }) },
    ...options,
  });
const unavailable = () => Promise.reject(new GatewayError("store_unavailable", "The store is away."));
const logged = (method: string, message: string) => [
  {
    msg: "request failed unexpectedly",
    request: expect.stringMatching(/^r[0-9a-f]{10}-\d+$/),
    method,
    err: { message },
  },
];

/** Calls the tool of job 0 with a payment. */
async function buy(shop: TestGateway, params: object = {}, meta: object = {}) {
  const { payload } = await shop.sign();
  const _meta = { "x402/payment": payload, ...meta };
  return sendRpc(`${shop.url}/mcp`, "tools/call", {
    name: "job-1-0",
    arguments: { body: "work" },
    _meta,
    ...params,
  });
}

const json = (schema: string, example: string) => ({ contentType: "application/json", schema, example });

it.each([
  [json('{"type":"object"}', '{"n":7}'), { examples: [{ n: 7 }] }],
  [json('{"type":"object","examples":[{"n":1}]}', '{"n":7}'), { examples: [{ n: 1 }] }],
  [json('{"type":"integer"}', "7"), { properties: { body: { type: "integer", examples: [7] } } }],
  [{ contentType: "text/plain", example: "abc" }, { properties: { body: { examples: ["abc"] } } }],
])(
  "The tool of a job with the input %o has its example, unless the schema has examples",
  async (input, inputSchema) => {
    const shop = await startShop({ jobs: [{ ...JOB, input }] });
    const { result } = await sendRpc(`${shop.url}/mcp`, "tools/list");
    expect((result as { readonly tools: object[] }).tools[0]).toMatchObject({ inputSchema });
  },
);

it("A call gets the runner all digits of the numbers in its arguments", async () => {
  const shop = await startShop({ jobs: [{ ...JOB, input: { contentType: "application/json" } }] });
  const { payload } = await shop.sign();
  const args = '{"id":12345678901234567890,"n":5.0000000000000000001}';
  const meta = JSON.stringify({ "x402/payment": payload });
  const params = `{"name":"job-1-0","arguments":${args},"_meta":${meta}}`;
  const answer = sendText(
    `${shop.url}/mcp`,
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`,
  );
  await eventually(async () => {
    const call = await claimOne(shop.store);
    expect(Buffer.from(fromBinary(JobCallSchema, call.encoded).body).toString()).toBe(args);
    await shop.store.ack(call);
  });
  expect((await answer).result).toMatchObject({ content: [] });
});

it("A call without the body that its tool requires has the offers, and is refused with a payment", async () => {
  const shop = await startShop({ jobs: [{ ...JOB, input: { contentType: "text/plain" } }] });
  const asked = await sendRpc(`${shop.url}/mcp`, "tools/call", { name: "job-1-0", arguments: {} });
  expect(asked.result?.structuredContent).toMatchObject({ x402Version: 2, accepts: [{ scheme: "exact" }] });
  expect(await buy(shop, { arguments: {} })).toMatchObject({
    error: { code: -32602, message: "arguments.body is missing. Nothing was charged." },
  });
  expect((await shop.store.totals()).payments.settled).toBe(0);
});

describe("A tool whose body is one argument", () => {
  it.each<[string, Job["input"], object, string]>([
    ["another name", undefined, { text: "summarise this" }, "arguments.text"],
    [
      "another name beside the body",
      { contentType: "text/plain" },
      { body: "a", lang: "en" },
      "arguments.lang",
    ],
    ["two other names", json('{"type":"integer"}', "7"), { n: 7, m: 8 }, "arguments.n, arguments.m"],
  ])("Refuses arguments that would not reach the runner: %s", async (_, input, args, names) => {
    const shop = await startShop({ jobs: [{ ...JOB, ...(input && { input }) }] });
    const { result } = await sendRpc(`${shop.url}/mcp`, "tools/list");
    const [tool] = (result as { readonly tools: { readonly inputSchema: object }[] }).tools;
    expect(tool?.inputSchema).toMatchObject({ type: "object", additionalProperties: false });
    const message = `${names}: unknown. The only argument of this tool is body.`;
    const params = { name: "job-1-0", arguments: args };
    for (const answer of [await sendRpc(`${shop.url}/mcp`, "tools/call", params), await buy(shop, params)])
      expect(answer).toMatchObject({ error: { code: -32602, message } });
    expect((await shop.store.totals()).payments.settled).toBe(0);
  });

  it.each([[[]], [{ body: 1 }]])(
    "Is a replay for a known payment with the arguments %j, as for other arguments",
    async (args) => {
      const shop = await startShop();
      const { payload } = await shop.sign();
      const call = (sent: unknown) =>
        sendRpc(`${shop.url}/mcp`, "tools/call", {
          ...{ name: "job-1-0", arguments: sent, task: {} },
          _meta: { "x402/payment": payload },
        });
      expect((await call({ body: "work" })).result).toMatchObject({ task: { status: "working" } });
      const { result } = await call(args);
      expect(result).toMatchObject({ isError: true, structuredContent: { code: "payment_replay" } });
    },
  );

  it("Is sold without arguments if it needs none", async () => {
    const { result } = await buy(await startShop(), { arguments: {}, task: {} });
    expect(result).toMatchObject({ task: { status: "working" } });
  });
});

describe.each([
  ["as JSON", {}],
  ["as a stream", { progressToken: "p" }],
])("An answer %s", (_, meta) => {
  it.each([
    ["internal_error", new TypeError("a bug")],
    ["store_unavailable", new UnknownOutcomeError("a bug")],
  ])(
    "Is %s after an unexpected error of a purchase, claims nothing, and the log has it once",
    async (...row) => {
      const [code, error] = row;
      const shop = await startShop();
      shop.store.findPaymentByFingerprint = () => Promise.reject(error);
      const { result } = await buy(shop, {}, meta);
      const told = { error: expect.not.stringContaining("a bug"), code, charged: "unknown", retryable: true };
      expect([result?.isError, result?.structuredContent]).toEqual([true, told]);
      expect(shop.errors).toMatchObject(logged("tools/call", "a bug"));
    },
  );

  it("Names the refusal of a task, and hides an unexpected error, which the log has once", async () => {
    const shop = await startShop();
    const ask = () => sendRpc(`${shop.url}/mcp`, "tasks/get", { taskId: `1.${"x".repeat(43)}`, _meta: meta });
    shop.store.findCall = unavailable;
    expect((await ask()).error).toEqual({
      code: -32000,
      message: "The store is away.",
      data: { code: "store_unavailable", retryable: true },
    });
    expect(shop.errors).toEqual([]);
    shop.store.findCall = () => Promise.reject(new TypeError("a bug"));
    expect((await ask()).error).toEqual({
      code: -32603,
      message: "Something went wrong inside jobgate.",
      data: { code: "internal_error", retryable: true },
    });
    expect(shop.errors).toMatchObject(logged("tasks/get", "a bug"));
  });
});

describe("A call that is paid for", () => {
  it("Needs no arguments", async () => {
    const { result } = await buy(await startShop(), { arguments: undefined, task: {} });
    expect(result).toMatchObject({ task: { status: "working" } });
  });

  it("Is a task at work while the store cannot be read, and never a refusal", async () => {
    const shop = await startShop();
    shop.store.findCall = unavailable;
    const { result } = await buy(shop, { task: {} });
    expect(result).toMatchObject({
      task: { taskId: expect.any(String), status: "working" },
      _meta: { "x402/payment-response": { success: true }, "jobgate/call": { call_id: 1 } },
    });
    expect(shop.errors).toEqual([]);
  });

  it("Is still running while its result cannot be read; the log has an unexpected error once", async () => {
    const shop = await startShop();
    const { findCall } = shop.store;
    shop.store.findCall = async (callId) => {
      const call = await findCall.call(shop.store, callId);
      return call && { ...call, state: "succeeded" };
    };
    shop.store.findResult = () => Promise.reject(new TypeError("a bug"));
    const { result } = await buy(shop);
    expect(result).toMatchObject({
      structuredContent: { status: "running", task_id: expect.any(String) },
      _meta: { "x402/payment-response": { success: true }, "jobgate/call": { call_id: 1 } },
    });
    expect(result?.isError).toBeUndefined();
    expect(shop.errors).toMatchObject(logged("tools/call", "a bug"));
  });

  it("Keeps a result that could not be read for its answer, although the job forgets what was sent", async () => {
    const shop = await startShop({ jobs: [{ ...JOB, storeAnswers: false }] });
    const paid = buy(shop);
    const result = { body: Buffer.alloc(300_000, "x"), contentType: "text/plain" };
    await eventually(async () => shop.store.ack(await claimOne(shop.store), result));
    const { readResult } = shop.store;
    shop.store.readResult = unavailable;
    const told = (await paid).result;
    expect(told).toMatchObject({ structuredContent: { status: "running" } });
    const taskId = told?.structuredContent?.task_id;
    shop.store.readResult = readResult;
    const { result: read } = await sendRpc(`${shop.url}/mcp`, "tasks/result", { taskId });
    expect(read).toMatchObject({ content: [{ text: "x".repeat(300_000) }] });
  });

  it("Becomes a task when it outlasts its wait, and a task that outlasts its own is asked for again", async () => {
    const waits = { toolMs: 1, longToolMs: 1 };
    const shop = await startShop({ parts: async (services) => [new Mcp(services, waits)] });
    const send = (method: string, params: object) => sendRpc(`${shop.url}/mcp`, method, { ...params });
    const { result } = await buy(shop);
    expect(result?.structuredContent).toEqual({ status: "running", task_id: expect.any(String) });
    const taskId = result?.structuredContent?.task_id;
    expect((await send("tasks/result", { taskId })).error).toMatchObject({
      code: -32000,
      data: { retryable: true },
    });
    expect((await send("tasks/get", { taskId })).result).toMatchObject({ status: "working" });
  });
});
