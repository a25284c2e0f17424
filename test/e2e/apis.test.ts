import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import { beforeEach, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { type HttpListener, listenHttp } from "../helpers/http-listener.ts";
import { sendRpc } from "../helpers/mcp.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

const seen: Seen[] = [];
let isWell = true;
/** Answer that is stored in chunks. */
const BIG = randomBytes(1_500_000);

/** Bytes that are no UTF-8, and bytes that are. */
const ACCEPT = 'application/json;q="\u00e9, Ã¼"';

const TRACE = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;

/** An API that knows nothing of payments. */
const api = startBeforeAll((): Promise<HttpListener> => listenHttp({ handler }));

/** The same at a Unix socket. */
const socket = startBeforeAll(async () => {
  const path = join(await mkdtemp(join(tmpdir(), "jobgate-api-")), "api.sock");
  const server = createServer(handler).listen(path);
  await once(server, "listening");
  return {
    path,
    stop: async () => {
      server.close();
    },
  };
});

function handler(request: IncomingMessage, response: ServerResponse): void {
  const { method = "", url = "", headers } = request;
  void buffer(request).then((bytes) => {
    const body = bytes.toString();
    if (url !== "/health") seen.push({ method, url, headers, body });
    answer(url.split("?")[0] ?? "", body, response);
  });
}

function answer(path: string, body: string, response: ServerResponse): unknown {
  const json = (status: number, value: unknown, more = {}) =>
    void response
      .writeHead(status, { "content-type": "application/json", ...more })
      .end(JSON.stringify(value));
  switch (path) {
    case "/health":
      return response.writeHead(isWell ? 200 : 500).end("ok");
    case "/docs/a%20b":
      return json(200, { docs: true }, { "set-cookie": "a=b", etag: '"1"' });
    case "/weather/Paris":
      return json(
        200,
        { city: "Paris" },
        { etag: '"w1"', link: '</p2>; rel="next"', "payment-response": "forged" },
      );
    case "/weather/Atlantis":
    case "/strict/Atlantis":
      return json(404, { error: "no such city" });
    case "/weather/secret":
      return json(401, { error: "wrong key" });
    case "/weather/large":
      return response.writeHead(200).end(Buffer.alloc(1_500_001));
    case "/weather/big":
      return response.writeHead(200, { "content-type": "application/pdf" }).end(BIG);
    case "/weather/slow":
    case "/docs/slow":
      return undefined;
    case "/weather/forever": {
      const timer = setInterval(() => response.write("more"), 200);
      return response.once("close", () => clearInterval(timer));
    }
    case "/weather/nothing":
      return response.writeHead(404, { "content-type": "text/plain" }).end("x".repeat(100_000));
    case "/weather/broken":
      response.writeHead(200, { "content-length": "100" });
      return response.write("part", () => response.destroy());
    case "/items":
      if (body.includes("dead")) return response.destroy();
      return body.includes("bad")
        ? json(422, { error: "bad" })
        : json(201, { id: 1 }, { location: `${api.url}/items/1` });
    default:
      return json(200, { path });
  }
}

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => `${config}
[[apis]]
name = "weather"
url = "${api.url}"
headers = { X-Api-Key = "the key" }
forward_headers = ["accept", "content-type"]
timeout_secs = 1
free = ["GET /docs/{path...}"]
health = "GET /health"
[[jobs]]
route = "GET /weather/{city}"
api = "weather"
price_wei = "1000000000000000"
max_result_bytes = 1_500_000
max_run_secs = 4
[[apis]]
name = "strict"
url = "${api.url}"
uncharged_per_minute = 1
forward_headers = ["if-none-match", "range", "x-tier"]
[[apis]]
name = "socket"
url = "unix:${socket.path}"
[[jobs]]
route = "GET /socket/{path...}"
api = "socket"
price_wei = "1000000000000000"
[[jobs]]
route = "GET /strict/{path...}"
api = "strict"
price_wei = "1000000000000000"
[[jobs]]
route = "GET /typed/{city}"
api = "weather"
price_wei = "1000000000000000"
[jobs.input.query]
city = { type = "string", maxLength = 10 }
days = { type = "integer", maximum = 7 }
required = ["days"]
[[jobs]]
route = "POST /items"
api = "weather"
price_wei = "1000000000000000"
`,
  }),
);

const received = () => parts.usdc.balanceOf(accounts.payTo.address);

async function sign(target: string, init: RequestInit = {}) {
  const asked = await fetch(`${gateway.jobgate.x402Url}${target}`, init);
  expect(asked.status).toBe(402);
  const offer = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
  const lifetime = offer.accepts[0]?.maxTimeoutSeconds ?? Number.NaN;
  const chainTime = await parts.chainTimeSecs();
  const validBefore = String(Math.max(chainTime, Math.floor(Date.now() / 1000)) + lifetime);
  return signV2Payment({ account: accounts.payer, authorization: { validBefore }, offer, option: 0 });
}

async function buy(target: string, init: RequestInit = {}) {
  const { headers } = await sign(target, init);
  const send = () =>
    fetch(`${gateway.jobgate.x402Url}${target}`, { ...init, headers: { ...init.headers, ...headers } });
  return { answer: await send(), again: send };
}

/** Signs a payment for the tool of a route, and returns what calls the tool with it. */
async function callTool(route: string, args: object) {
  const url = `${gateway.jobgate.x402Url}/mcp`;
  const { result: list } = await sendRpc(url, "tools/list");
  const { jobs } = (await (await fetch(`${gateway.jobgate.x402Url}/x402/jobs`)).json()) as {
    jobs: { route: string; job_index: number }[];
  };
  const name = `job-1-${jobs.find((job) => job.route === route)?.job_index}`;
  const tools = (list?.tools ?? []) as { name: string; inputSchema: object }[];
  const listed = tools.find((tool) => tool.name === name);
  const call = async (_meta: object) =>
    (await sendRpc(url, "tools/call", { name, arguments: args, _meta })).result;
  const offer = (await call({}))?.structuredContent as unknown as PaymentRequired;
  const lifetime = offer.accepts[0]?.maxTimeoutSeconds ?? Number.NaN;
  const validBefore = String(Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000)) + lifetime);
  const payment = await signV2Payment({ account: accounts.payer, authorization: { validBefore }, offer });
  return {
    listed,
    tool: async () => (await call({ "x402/payment": payment.payload })) as Record<string, unknown>,
  };
}

beforeEach(() => {
  seen.length = 0;
});

describe("A route of an API", () => {
  it("is bought with the API's own answer, which a resend gets without another call", async () => {
    const before = await received();
    const { answer, again } = await buy("/weather/Paris?units=%4Detric", {
      headers: { accept: ACCEPT, traceparent: TRACE },
    });
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ city: "Paris" });
    expect(answer.headers.get("etag")).toBe('"w1"');
    expect(answer.headers.get("location")).toBeNull();
    expect(answer.headers.get("link")).toMatch(/^<\/p2>; rel="next", <\/x402\/calls\/\d+>; rel="status"$/);
    expect(answer.headers.get("payment-response")).toMatch(/^[A-Za-z0-9+/=]{40,}$/);
    expect(await received()).toBe(before + AMOUNT);
    expect(seen).toMatchObject([{ method: "GET", url: "/weather/Paris?units=%4Detric", body: "" }]);
    const [call] = seen;
    expect(call?.headers).toMatchObject({
      accept: ACCEPT,
      host: new URL(api.url).host,
      "x-api-key": "the key",
      "x-forwarded-for": "127.0.0.1",
      "x-jobgate-payer": accounts.payer.address.toLowerCase(),
      "idempotency-key": answer.headers.get("x-call-id"),
      traceparent: TRACE,
    });
    const names = Object.keys(call?.headers ?? {});
    expect(names.filter((name) => /payment|cookie|authorization/.test(name))).toEqual([]);
    const resent = await again();
    expect([resent.status, await resent.json()]).toEqual([200, { city: "Paris" }]);
    expect(seen).toHaveLength(1);
    expect(await received()).toBe(before + AMOUNT);
  });

  it("is bought with a body, and a Location within the API leads to the gateway", async () => {
    const init = { method: "POST", body: '{"name":"a"}', headers: { "content-type": "application/json" } };
    const { answer } = await buy("/items", init);
    expect([answer.status, answer.headers.get("location")]).toEqual([201, "http://127.0.0.1:8402/items/1"]);
    expect(seen).toMatchObject([
      { method: "POST", body: init.body, headers: { "content-type": "application/json" } },
    ]);
  });

  it.each([
    ["/weather/Atlantis", {}, 404, undefined],
    ["/items", { method: "POST", body: "bad" }, 422, undefined],
    ["/items", { method: "POST", body: "dead" }, 502, "outcome_unknown"],
    ["/weather/secret", {}, 502, "api_refused"],
    ["/weather/large", {}, 502, "result_too_large"],
    ["/weather/slow", {}, 504, "api_timeout"],
    ["/weather/forever", {}, 504, "api_timeout"],
    ["/weather/broken", {}, 502, "api_broke_off"],
  ])("charges nothing for %s %j: %i %s", async (target, init, status, code) => {
    const before = await received();
    const { answer, again } = await buy(target, init);
    expect(answer.status).toBe(status);
    const body = await answer.json();
    if (code !== undefined) expect(body).toMatchObject({ code });
    expect(answer.headers.get("x-charged")).toBe("false");
    expect(answer.headers.get("payment-response")).toBeNull();
    const calls = seen.length;
    // A GET whose answer broke off was made twice.
    expect(calls).toBe(code === "api_broke_off" ? 2 : 1);
    const resent = await again();
    expect([resent.status, await resent.json()]).toEqual([status, body]);
    expect(seen).toHaveLength(calls);
    expect(await received()).toBe(before);
  });

  it("is bought whole, whatever condition the API does not get, and a resend is answered by that condition", async () => {
    const { answer, again } = await buy("/weather/Paris", { headers: { "if-none-match": "*" } });
    expect([answer.status, await answer.json()]).toEqual([200, { city: "Paris" }]);
    expect((await again()).status).toBe(304);
  });

  it("is given to a resend by the resend's own conditions and ranges, though the API gets them as well", async () => {
    const { headers } = await sign("/strict/Paris", { headers: { "if-none-match": '"old"' } });
    const send = (sent: object) =>
      fetch(`${gateway.jobgate.x402Url}/strict/Paris`, { headers: { ...headers, ...sent } });
    expect((await send({ "if-none-match": '"old"' })).status).toBe(200);
    expect(seen).toMatchObject([{ headers: { "if-none-match": '"old"' } }]);
    expect((await send({})).status).toBe(200);
    expect((await send({ "if-none-match": "*" })).status).toBe(304);
    const part = await send({ range: "bytes=0-3" });
    expect([part.status, await part.text()]).toEqual([206, '{"pa']);
    expect((await send({ "x-tier": "pro" })).status).toBe(409);
    expect(seen).toHaveLength(1);
  });

  it("refuses a path or query that its schemas refuse, with a payment too, before it is charged or called", async () => {
    const before = await received();
    const { headers } = await sign("/typed/Paris?days=7");
    const get = (target: string, sent = {}) => fetch(gateway.jobgate.x402Url + target, { headers: sent });
    const wrong = { Paris: ["", "?days=8", "?days=1.00000000000000000001", "?days=7&days=7"] };
    // A request without a query and a payment asks for the price.
    for (const target of [
      ...wrong.Paris.map((query) => `/typed/Paris${query}`),
      "/typed/Constantinople?days=7",
    ])
      for (const sent of target === "/typed/Paris" ? [headers] : [{}, headers]) {
        const refused = await get(target, sent);
        expect([refused.status, await refused.json()]).toMatchObject([
          422,
          {
            code: "invalid_input",
            charged: false,
            invalid: [{ path: expect.stringMatching(/^.(path|query)./) }],
          },
        ]);
      }
    expect(seen).toEqual([]);
    expect(await received()).toBe(before);
    expect((await get("/typed/Paris?days=7", headers)).status).toBe(200);
    expect(await received()).toBe(before + AMOUNT);
    expect(seen).toMatchObject([{ url: "/typed/Paris?days=7" }]);
  });

  it("has dry runs that refuse what its schemas refuse", async () => {
    const at = gateway.jobgate.x402Url;
    const { jobs } = (await (await fetch(`${at}/x402/jobs`)).json()) as {
      jobs: { route: string; job_index: number }[];
    };
    const index = jobs.find(({ route }) => route === "GET /typed/{city}")?.job_index;
    const dryRun = async (target: string) => {
      const init = { method: "POST", headers: { "x-http-target": `GET ${target}` } };
      const answer = await fetch(`${at}/x402/jobs/1/${index}/auth-dry-run`, init);
      return [answer.status, await answer.json()];
    };
    expect(await dryRun("/typed/Paris?days=7")).toMatchObject([200, { allowed: true }]);
    expect(await dryRun("/typed/Paris?days=8")).toMatchObject([
      422,
      { allowed: false, code: "invalid_input", invalid: [{ path: "/query/days" }] },
    ]);
  });

  it("may have more than 1 MiB", async () => {
    const { answer, again } = await buy("/weather/big");
    expect(answer.headers.get("content-type")).toBe("application/pdf");
    expect(Buffer.from(await answer.arrayBuffer()).equals(BIG)).toBe(true);
    expect(Buffer.from(await (await again()).arrayBuffer()).equals(BIG)).toBe(true);
    expect(seen).toHaveLength(1);
  });

  it("is told by its offer, the lists and the description of the server", async () => {
    const at = gateway.jobgate.x402Url;
    const asked = await fetch(`${at}/weather/Paris?units=K`);
    const { resource, extensions } = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
    expect(resource).toMatchObject({
      url: "http://127.0.0.1:8402/weather/{city}",
      maxResultBytes: 1_500_000,
    });
    expect(extensions?.bazaar).toMatchObject({
      routeTemplate: "/weather/:city",
      info: { input: { type: "http", method: "GET" } },
      schema: {
        properties: {
          input: {
            properties: { pathParams: { properties: { city: {} } }, queryParams: { type: "object" } },
          },
        },
      },
    });
    const { jobs } = (await (await fetch(`${at}/x402/jobs`)).json()) as { jobs: { route?: string }[] };
    expect(jobs.find(({ route }) => route === "GET /weather/{city}")).toMatchObject({
      max_result_bytes: 1_500_000,
      x402_endpoint: "http://127.0.0.1:8402/weather/{city}",
    });
    expect(jobs.find(({ route }) => route === "POST /items")).toMatchObject({ max_result_bytes: 10_485_760 });
    const { paths } = (await (await fetch(`${at}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, object>>;
    };
    expect(paths["/weather/{city}"]?.get).toMatchObject({
      parameters: [{ name: "city", in: "path", required: true }, {}, {}],
      "x-max-result-bytes": 1_500_000,
    });
    expect(paths["/weather/{city}"]?.get).not.toHaveProperty("requestBody");
    expect(paths["/items"]?.post).toHaveProperty("requestBody");
  });

  it("is a tool of MCP, whose arguments are the parts of its request", async () => {
    const { tool, listed } = await callTool("GET /weather/{city}", {
      path: { city: "Paris" },
      query: { units: "K" },
    });
    expect(listed?.inputSchema).toMatchObject({
      properties: { path: { properties: { city: {} }, required: ["city"] }, query: { type: "object" } },
    });
    expect(await tool()).toMatchObject({
      structuredContent: { city: "Paris" },
      _meta: {
        "x402/payment-response": { success: true },
        "jobgate/call": expect.not.objectContaining({ payment: expect.anything() }),
        "jobgate/answer": { status: 200, headers: { etag: '"w1"', link: '</p2>; rel="next"' } },
      },
    });
    expect((await tool()).structuredContent).toEqual({ city: "Paris" });
    expect(seen).toMatchObject([{ method: "GET", url: "/weather/Paris?units=K", body: "" }]);
    const posted = await callTool("POST /items", { body: { name: "a" } });
    expect(await posted.tool()).toMatchObject({
      structuredContent: { id: 1 },
      _meta: { "jobgate/answer": { status: 201 } },
    });
    expect(seen[1]).toMatchObject({ body: '{"name":"a"}', headers: { "content-type": "application/json" } });
  });

  it("is a tool of MCP whose errors are not charged, and whose large answers are links", async () => {
    const before = await received();
    const { tool } = await callTool("GET /weather/{city}", { path: { city: "Atlantis" } });
    const { isError, structuredContent, _meta } = (await tool()) as Record<string, unknown>;
    expect([isError, structuredContent]).toEqual([true, { error: "no such city" }]);
    expect(_meta).toMatchObject({
      "jobgate/answer": { status: 404 },
      "jobgate/call": { payment: "released" },
    });
    expect(_meta).not.toHaveProperty(["x402/payment-response"]);
    expect(await received()).toBe(before);
    const large = await callTool("GET /weather/{city}", { path: { city: "big" } });
    const { content } = (await large.tool()) as { content: { uri: string; size: number; type: string }[] };
    expect(content).toMatchObject([
      { type: "resource_link", mimeType: "application/pdf", size: BIG.byteLength },
    ]);
  });

  it("keeps 64 KiB of an answer that is not paid", async () => {
    const { answer } = await buy("/weather/nothing");
    expect([answer.status, answer.headers.get("x-result-truncated")]).toEqual([404, "true"]);
    expect(await answer.text()).toBe("x".repeat(65_536));
  });

  it("may be at a Unix socket", async () => {
    const { answer } = await buy("/socket/a?b=c");
    expect([answer.status, await answer.json()]).toEqual([200, { path: "/socket/a" }]);
    expect(seen).toMatchObject([{ method: "GET", url: "/socket/a?b=c" }]);
  });

  it("is refused to payers whose calls of this API ended uncharged", async () => {
    await buy("/weather/Atlantis");
    await buy("/strict/Atlantis");
    const { answer } = await buy("/strict/a");
    expect([answer.status, await answer.json()]).toMatchObject([
      429,
      { code: "rate_limited", charged: false },
    ]);
    expect(seen.map(({ url }) => url)).toEqual(["/weather/Atlantis", "/strict/Atlantis"]);
  });

  it("makes a GET again once whose answer broke off", async () => {
    await buy("/weather/broken");
    expect(seen.map(({ headers }) => headers["x-jobgate-attempt"])).toEqual(["1", "2"]);
  });

  it("is not given to a runner that takes all jobs", async () => {
    await buy("/weather/Paris");
    expect(gateway.delivered).toEqual([]);
  });

  it("is off sale while its health check fails", async () => {
    const payment = await sign("/weather/Paris");
    const isNoted = () => gateway.jobgate.logs.some((line) => line.includes("its routes are not sold"));
    isWell = false;
    try {
      await expect.poll(isNoted, { timeout: 10_000 }).toBe(true);
      for (const headers of [payment.headers, {}]) {
        const answer = await fetch(`${gateway.jobgate.x402Url}/weather/Paris`, { headers });
        expect([answer.status, await answer.json()]).toMatchObject([
          503,
          { code: "api_unreachable", charged: false },
        ]);
      }
      expect(seen).toEqual([]);
    } finally {
      isWell = true;
    }
  });
});

describe("A path that is not sold", () => {
  it("is passed through unpaid if it is free, without the API's cookies", async () => {
    const origin = "https://shop.example";
    const answer = await fetch(`${gateway.jobgate.x402Url}/docs/a%20b`, { headers: { origin } });
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect([answer.status, await answer.json()]).toEqual([200, { docs: true }]);
    expect([answer.headers.get("set-cookie"), answer.headers.get("etag")]).toEqual([null, '"1"']);
    expect(seen).toMatchObject([{ url: "/docs/a%20b", headers: { "x-api-key": "the key" } }]);
  });

  it("is 504 if it is free and the API is late", async () => {
    const answer = await fetch(`${gateway.jobgate.x402Url}/docs/slow`);
    expect([answer.status, await answer.json()]).toMatchObject([504, { code: "api_timeout" }]);
  });

  it.each([
    "/admin",
    "/weather",
    "/weather/a/b",
    "/docs/..%2fadmin",
    "/docs/%2e%2e/admin",
    "/weather//Paris",
  ])("reaches nothing: %s", async (path) => {
    const answer = await fetch(`${gateway.jobgate.x402Url}${path}`);
    expect(answer.status).toBe(404);
    expect(seen).toEqual([]);
  });
});
