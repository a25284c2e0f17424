import { describe, expect, it } from "vitest";
import { Mcp } from "../../../src/parts/mcp/mcp.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { eventually } from "../../helpers/eventually.ts";
import { sendRpc } from "../../helpers/mcp.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne } from "../../store/store-fixtures.ts";
import { startAnotherGateway, type TestGateway } from "../../x402/gateway-harness.ts";
import { soldByMcp } from "./tables.ts";

const VERSION = "2026-07-28";
const PREFIX = "io.modelcontextprotocol/";
const TASKS = { [`${PREFIX}clientCapabilities`]: { extensions: { [`${PREFIX}tasks`]: {} } } };

const parts = startBeforeAll(startPaidParts);
const startShop = (waits = { toolMs: 50_000, longToolMs: 50_000 }) =>
  startAnotherGateway({
    config: { facilitatorUrl: parts.facilitator.url, parts: soldByMcp() },
    parts: async (services) => [new Mcp(services, waits)],
  });

/** Sends a message without a session, as its version asks for. */
async function send(
  { url }: TestGateway,
  method: string,
  { _meta: meta, ...params }: { readonly _meta?: object; readonly [name: string]: unknown } = {},
  headers: Readonly<Record<string, string>> = {},
) {
  const { name = params.taskId } = params;
  const _meta = { [`${PREFIX}protocolVersion`]: VERSION, [`${PREFIX}clientCapabilities`]: {}, ...meta };
  return sendRpc(
    `${url}/mcp`,
    method,
    { ...params, _meta },
    {
      "mcp-protocol-version": VERSION,
      "mcp-method": method,
      ...(typeof name === "string" && { "mcp-name": name }),
      ...headers,
    },
  );
}

async function pay(shop: TestGateway, meta: object = {}) {
  const { payload } = await shop.sign();
  const _meta = { "x402/payment": payload, ...meta };
  return { name: "job-1-0", arguments: { body: "work" }, _meta };
}

async function finish({ store }: TestGateway, text: string) {
  const result = { body: Buffer.from(text), contentType: "text/plain" };
  await eventually(async () => store.ack(await claimOne(store), result));
}

describe("A message without a session", () => {
  it("Discovers the versions and what the server can do, and lists the tools with how long they may be kept", async () => {
    const shop = await startShop();
    const { status, result, headers } = await send(shop, "server/discover");
    expect([status, headers.get("mcp-session-id")]).toEqual([200, null]);
    expect(result).toEqual({
      resultType: "complete",
      supportedVersions: [VERSION, "2025-11-25", "2025-06-18", "2025-03-26"],
      capabilities: { tools: {}, extensions: { [`${PREFIX}tasks`]: {} } },
      instructions: expect.any(String),
      ttlMs: 60_000,
      cacheScope: "public",
      _meta: {
        [`${PREFIX}serverInfo`]: {
          name: expect.any(String),
          version: expect.any(String),
          title: expect.any(String),
        },
      },
    });
    expect((await send(shop, "tools/list")).result).toMatchObject({
      ...{ resultType: "complete", ttlMs: 60_000, cacheScope: "public" },
      tools: [{ name: "job-1-0" }, { name: "job-1-1" }],
    });
  });

  it("Buys a job: the offers first, and then its result", async () => {
    const shop = await startShop();
    const { result } = await send(shop, "tools/call", { name: "job-1-0", arguments: { body: "work" } });
    expect(result).toMatchObject({
      resultType: "complete",
      isError: true,
      structuredContent: { x402Version: 2, code: "payment_required", accepts: [{ scheme: "exact" }] },
    });
    const paid = send(shop, "tools/call", await pay(shop));
    await finish(shop, "done");
    expect((await paid).result).toMatchObject({
      resultType: "complete",
      content: [{ type: "text", text: "done" }],
      _meta: {
        "x402/payment-response": { success: true },
        [`${PREFIX}serverInfo`]: { version: expect.any(String) },
      },
    });
  });

  it("Gets a task for a call that goes on, if its client takes tasks, and the outcome with the task", async () => {
    const shop = await startShop({ toolMs: 1, longToolMs: 50_000 });
    const { result } = await send(shop, "tools/call", await pay(shop, TASKS));
    expect(result).toMatchObject({
      resultType: "task",
      status: "working",
      ttlMs: null,
      pollIntervalMs: 1_000,
      _meta: { "jobgate/call": { call_id: 1 } },
    });
    const taskId = String(result?.taskId);
    expect((await send(shop, "tasks/get", { taskId, _meta: TASKS })).result).toMatchObject({
      resultType: "complete",
      taskId,
      status: "working",
    });
    for (const method of ["tasks/cancel", "tasks/update"])
      expect((await send(shop, method, { taskId, inputResponses: {}, _meta: TASKS })).result).toEqual({
        resultType: "complete",
        _meta: expect.any(Object),
      });
    await finish(shop, "at last");
    expect((await send(shop, "tasks/get", { taskId, _meta: TASKS })).result).toMatchObject({
      status: "completed",
      result: { content: [{ type: "text", text: "at last" }] },
    });
    const guessed = `${taskId.slice(0, -2)}AA`;
    expect((await send(shop, "tasks/get", { taskId: guessed, _meta: TASKS })).error).toMatchObject({
      code: -32602,
    });
  });

  it("Learns from its result that the call goes on, if its client takes no tasks", async () => {
    const shop = await startShop({ toolMs: 1, longToolMs: 1 });
    const { result } = await send(shop, "tools/call", await pay(shop));
    expect(result).toMatchObject({ resultType: "complete", structuredContent: { status: "running" } });
  });

  it("Is completed with its error, if the job fails", async () => {
    const shop = await startShop({ toolMs: 1, longToolMs: 50_000 });
    const { result } = await send(shop, "tools/call", await pay(shop, TASKS));
    await shop.store.fail(await claimOne(shop.store), "no paper");
    expect((await send(shop, "tasks/get", { taskId: result?.taskId, _meta: TASKS })).result).toMatchObject({
      status: "completed",
      result: { isError: true, content: [{ text: "The job failed: no paper" }] },
    });
  });

  it("Is refused before anything is bought if it contradicts its headers, or lacks what its version asks for", async () => {
    const shop = await startShop();
    const bought = await pay(shop);
    const mismatch = (headers: Record<string, string>) => send(shop, "tools/call", bought, headers);
    for (const headers of [
      { "mcp-method": "tools/list" },
      { "mcp-method": "" },
      { "mcp-name": "job-1-1" },
      { "mcp-protocol-version": "2025-11-25" },
    ]) {
      const { status, error } = await mismatch(headers);
      expect([headers, status, error?.code]).toEqual([headers, 400, -32020]);
    }
    const encoded = Buffer.from("job-1-1").toString("base64");
    expect((await mismatch({ "mcp-name": `=?base64?${encoded}?=` })).error).toMatchObject({ code: -32020 });
    for (const _meta of [
      { [`${PREFIX}clientCapabilities`]: undefined },
      { [`${PREFIX}clientCapabilities`]: "none" },
      { [`${PREFIX}clientCapabilities`]: { extensions: [] } },
      { [`${PREFIX}protocolVersion`]: undefined },
      { [`${PREFIX}protocolVersion`]: 7 },
    ]) {
      const { status, error } = await send(shop, "tools/call", {
        ...bought,
        _meta: { ...bought._meta, ..._meta },
      });
      expect([_meta, status, error?.code]).toEqual([_meta, 400, -32602]);
    }
    expect(await shop.store.findCall(1)).toBeUndefined();
  });

  it("Of another version is refused with the versions that there are, and of an old method with 404", async () => {
    const shop = await startShop();
    const other = "2099-01-01";
    const { status, error } = await send(
      shop,
      "tools/list",
      { _meta: { [`${PREFIX}protocolVersion`]: other } },
      { "mcp-protocol-version": other },
    );
    expect([status, error]).toEqual([
      400,
      {
        code: -32022,
        message: "Unsupported protocol version",
        data: { supported: [VERSION, "2025-11-25", "2025-06-18", "2025-03-26"], requested: other },
      },
    ]);
    for (const method of ["initialize", "ping", "tasks/result", "subscriptions/listen", "toString"]) {
      const { status, error } = await send(shop, method, { taskId: "1.x", _meta: TASKS });
      expect([method, status, error?.code]).toEqual([method, 404, -32601]);
    }
  });

  it("Of tasks is refused where the client does not name the extension for tasks", async () => {
    const shop = await startShop();
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      const _meta = { [`${PREFIX}clientCapabilities`]: {} };
      const { status, error } = await send(shop, method, { taskId: "1.x", _meta });
      expect([method, status, error]).toMatchObject([
        method,
        400,
        { code: -32021, data: { requiredCapabilities: { extensions: { [`${PREFIX}tasks`]: {} } } } },
      ]);
    }
  });

  it("Names its tool in base64 where a header cannot hold the name", async () => {
    const shop = await startShop();
    const name = `=?base64?${Buffer.from("job-1-0").toString("base64")}?=`;
    const { result } = await send(shop, "tools/call", { name: "job-1-0" }, { "mcp-name": name });
    expect(result).toMatchObject({ structuredContent: { code: "payment_required" } });
  });
});
