import { decodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import { describe, expect, it, test } from "vitest";
import type { Job } from "../../src/config/config.ts";
import { parseRoute, type Route } from "../../src/core/route.ts";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV1Payment, signV2Payment } from "../helpers/clients.ts";
import { sendRpc } from "../helpers/mcp.ts";
import { readChallenges, signChallenge } from "../helpers/mpp.ts";
import { soldByBoth } from "../helpers/protocol-tables.ts";
import { rawRequest } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { claimOne } from "../store/store-fixtures.ts";
import {
  PUBLIC_URL,
  startAnotherGateway,
  startTestGateway,
  type TestGateway,
} from "../x402/gateway-harness.ts";
import { startPaidParts } from "./paid-parts.ts";

const job = (jobIndex: number, route: string, more: Partial<Job> = {}): Job => ({
  serviceId: 1n,
  jobIndex,
  route: parseRoute(route) as Route,
  ...more,
});

const WEATHER = job(0, "GET|POST /weather/{city}", { forwardHeaders: ["accept"] });
const JOBS = [WEATHER, job(1, "PUT /weather/{city}"), job(2, "GET /{all...}")];

const parts = startBeforeAll(startPaidParts);
const config = (jobs: readonly Job[] = JOBS): Parameters<TestGateway["reload"]>[0] => ({
  facilitatorUrl: parts.facilitator.url,
  parts: soldByBoth({ secretKeys: ["k".repeat(32)], realm: "jobgate.example", challengeTtlSecs: 300 }),
  jobPolicies: [],
  jobs,
});
const gateway = startBeforeAll(() => startTestGateway({ config: config() }));

interface Ask {
  readonly path: string;
  readonly method?: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

async function ask({ path, method = "GET", body, headers = {} }: Ask, at: TestGateway = gateway) {
  const response = await fetch(`${at.url}${path}`, { method, body: body ?? null, headers });
  const text = await response.text();
  const json = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
  return { status: response.status, headers: response.headers, body: json };
}

/** Signs a payment for a request, and returns what sends it with a request like that one. */
async function sign(request: Ask, at: TestGateway = gateway) {
  const { headers } = await ask(request, at);
  const offer = decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
  const payment = await signV2Payment({ offer, account: accounts.payer });
  return (other: Partial<Ask> = {}) =>
    ask({ ...request, ...other, headers: { ...request.headers, ...other.headers, ...payment.headers } }, at);
}

const PARIS: Ask = { path: "/weather/Paris?units=metric", headers: { accept: "application/json" } };

describe("A job with a route", () => {
  it("Answers 402 there with its price, and with the route's template as its resource", async () => {
    const { status, headers, body } = await ask(PARIS);
    expect([status, body.code]).toEqual([402, "payment_required"]);
    const { resource } = decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
    expect(resource?.url).toBe(`${PUBLIC_URL}/weather/{city}`);
  });

  it("Is bought there by each of its methods, and each other method of the path is a job of its own", async () => {
    for (const method of ["GET", "POST"]) {
      const send = await sign({ ...PARIS, method });
      expect(await send()).toMatchObject({ status: 202, body: { service_id: 1, job_index: 0 } });
    }
    const send = await sign({ ...PARIS, method: "PUT" });
    expect(await send()).toMatchObject({ status: 202, body: { job_index: 1 } });
  });

  it("Is bought there in version 1 of x402", async () => {
    const { v1 } = await requestOffer(`${gateway.url}/weather/Paris`, "a");
    expect(v1.accepts[0]?.resource).toBe(`${PUBLIC_URL}/weather/{city}`);
    const { headers } = await signV1Payment({ offer: v1, account: accounts.payer });
    const answer = await ask({ path: "/weather/Paris", method: "POST", body: "a", headers });
    expect(answer.status).toBe(202);
    expect(answer.headers.has("x-payment-response")).toBe(true);
  });

  it("Is not sold at its ids, where its price stays", async () => {
    const send = await sign(PARIS);
    for (const path of ["/x402/jobs/1/0", "/mpp/jobs/1/0"]) {
      const refused = { status: 404, body: { code: "job_not_found", charged: false } };
      expect(await ask({ path, method: "POST" })).toMatchObject(refused);
      expect(await ask({ path })).toMatchObject(refused);
      expect(await send({ path, method: "POST" })).toMatchObject(refused);
    }
    expect(await ask({ path: "/x402/jobs/1/0/price" })).toMatchObject({
      status: 200,
      body: { settlement_options: [{ x402_endpoint: `${PUBLIC_URL}/weather/{city}` }] },
    });
    expect(await send()).toMatchObject({ status: 202 });
  });

  it("Is listed with its route, and with the template as its URL", async () => {
    const { body } = await ask({ path: "/x402/jobs" });
    expect(body.jobs).toMatchObject([
      { route: "GET|POST /weather/{city}", x402_endpoint: `${PUBLIC_URL}/weather/{city}` },
      { route: "PUT /weather/{city}" },
      { route: "GET /{all...}" },
    ]);
  });
});

describe("A request with a payment that was used", () => {
  it("Gets the first outcome if it is the same", async () => {
    const send = await sign({ ...PARIS, method: "POST", body: "work" });
    const first = await send();
    expect(first.status).toBe(202);
    expect(await send()).toMatchObject({ status: 202, body: { call_id: first.body.call_id } });
  });

  test.each<[difference: string, request: Partial<Ask>]>([
    ["another method", { method: "GET", body: undefined as never }],
    ["another method of another job", { method: "PUT" }],
    ["another path", { path: "/weather/Rome?units=metric" }],
    ["the path in another spelling", { path: "/weather/%50aris?units=metric" }],
    ["a path that no job is sold at", { path: "/x402/weather/Paris" }],
    ["a path that is refused", { path: "/weather//Paris" }],
    ["the ids of the job", { path: "/x402/jobs/1/0" }],
    ["another query string", { path: "/weather/Paris?units=kelvin" }],
    ["the query string in another order", { path: "/weather/Paris?&units=metric" }],
    ["no query string", { path: "/weather/Paris" }],
    ["another header that the runner gets", { headers: { accept: "text/plain" } }],
    ["another content type", { headers: { "content-type": "text/csv" } }],
    ["a content encoding", { headers: { "content-encoding": "gzip" } }],
    ["another body", { body: "other" }],
  ])("Is a replay if it has %s", async (_, difference) => {
    const send = await sign({ ...PARIS, method: "POST", body: "work" });
    expect(await send()).toMatchObject({ status: 202 });
    const settles = parts.facilitator.counts.settle;
    expect(await send(difference)).toMatchObject({ status: 409, body: { code: "payment_replay" } });
    expect(parts.facilitator.counts.settle).toBe(settles);
  });

  it("May differ in headers that it is not bound to", async () => {
    const send = await sign(PARIS);
    const { body } = await send({ headers: { "user-agent": "one" } });
    expect(await send({ headers: { "user-agent": "two", "x-other": "1" } })).toMatchObject({
      status: 202,
      body: { call_id: body.call_id },
    });
  });

  it("Is compared by the headers that the payment was bound to, after a reload with others", async () => {
    const other = await startAnotherGateway({ config: config() });
    const send = await sign(PARIS, other);
    const { body } = await send();
    await other.reload(config([{ ...WEATHER, forwardHeaders: ["x-new"] }]));
    const same = { status: 202, body: { call_id: body.call_id } };
    expect(await send({ headers: { "x-new": "1" } })).toMatchObject(same);
    expect(await send({ headers: { accept: "text/plain" } })).toMatchObject({ status: 409 });
  });

  it("Gets the first outcome after its route was changed, removed, or sold its job at its ids", async () => {
    const other = await startAnotherGateway({ config: config() });
    const send = await sign(PARIS, other);
    const fresh = await sign(PARIS, other);
    const { body } = await send();
    const same = { status: 202, body: { call_id: body.call_id } };
    for (const [jobs, refusal] of [
      [[job(0, "GET /forecast/{city}")], { status: 404, body: { code: "not_found" } }],
      [[job(0, "DELETE /weather/{city}")], { status: 405, body: { code: "method_not_allowed" } }],
      [[], { status: 404, body: { code: "not_found" } }],
    ] as const) {
      await other.reload(config(jobs));
      expect(await send()).toMatchObject(same);
      expect(await fresh()).toMatchObject(refusal);
      expect(await send({ path: "/weather/Rome" })).toMatchObject({ status: 409 });
    }
  });

  it("Gets the first outcome after a reload gave its path to another job", async () => {
    const other = await startAnotherGateway({ config: config() });
    const send = await sign(PARIS, other);
    const { body } = await send();
    const settles = parts.facilitator.counts.settle;
    for (const jobs of [
      [job(7, "GET|POST /weather/{place}")],
      [WEATHER, job(7, "GET /weather/Paris", { forwardHeaders: ["accept"] })],
    ]) {
      await other.reload(config(jobs));
      expect(await send()).toMatchObject({ status: 202, body: { call_id: body.call_id } });
      expect(await send({ path: "/weather/Paris?days=2" })).toMatchObject({ status: 409 });
    }
    expect(parts.facilitator.counts.settle).toBe(settles);
  });

  it("Gets the result of a job that ran, although its route has left the configuration", async () => {
    const other = await startAnotherGateway({ config: config() });
    const send = await sign(PARIS, other);
    const { body } = await send();
    const result = { body: Buffer.from('{"city":"Paris"}'), contentType: "application/json" };
    await other.store.ack(await claimOne(other.store), result);
    await other.reload(config([]));
    const again = await send();
    expect(again).toMatchObject({ status: 200, body: { city: "Paris" } });
    expect(again.headers.get("x-call-id")).toBe(String(body.call_id));
  });

  it("Gets the first outcome by its tool of MCP, although its route has left the configuration", async () => {
    const other = await startAnotherGateway({ config: config() });
    const call = async (_meta: object = {}, name = "job-1-0") => {
      const params = { name, arguments: { path: { city: "Paris" } }, _meta, task: {} };
      return (await sendRpc(`${other.url}/mcp`, "tools/call", { ...params })).result;
    };
    const offer = (await call())?.structuredContent as unknown as PaymentRequired;
    const { payload } = await signV2Payment({ offer, account: accounts.payer });
    const idOf = (told: Awaited<ReturnType<typeof call>>) =>
      (told?._meta?.["jobgate/call"] as { call_id: number } | undefined)?.call_id;
    const first = idOf(await call({ "x402/payment": payload }));
    expect(first).toEqual(expect.any(Number));
    const settles = parts.facilitator.counts.settle;
    await other.reload(config([{ serviceId: 1n, jobIndex: 1 }]));
    expect(idOf(await call({ "x402/payment": payload }))).toBe(first);
    expect(await call({ "x402/payment": payload }, "job-1-1")).toMatchObject({
      isError: true,
      structuredContent: { code: "payment_replay" },
    });
    expect(parts.facilitator.counts.settle).toBe(settles);
  });

  it.each<[string, readonly Job[]]>([
    ["another path", [job(0, "GET|POST /forecast/{city}")]],
    ["another parameter", [job(0, "GET|POST /weather/{place}")]],
    ["another method", [job(0, "DELETE /weather/{city}")]],
    ["other bound headers", [{ ...WEATHER, forwardHeaders: ["x-new"] }]],
    ["no route", [{ serviceId: 1n, jobIndex: 0 }]],
    ["another job", [job(5, "GET|POST /forecast/{city}", { name: "job-1-0" })]],
    ["no tool", []],
  ])(
    "Gets the first outcome by its tool of MCP after a reload to %s, only with the same arguments",
    async (_, jobs) => {
      const other = await startAnotherGateway({ config: config() });
      const call = async (_meta: object, args: unknown) => {
        const params = { name: "job-1-0", arguments: args, _meta, task: {} };
        return (await sendRpc(`${other.url}/mcp`, "tools/call", params)).result;
      };
      const args = { query: { units: "metric", days: 2 }, path: { city: "Paris" } };
      const offer = (await call({}, args))?.structuredContent as unknown as PaymentRequired;
      const { payload } = await signV2Payment({ offer, account: accounts.payer });
      const paid = { "x402/payment": payload };
      const { "jobgate/call": first } = (await call(paid, args))?._meta ?? {};
      expect(first).toMatchObject({ call_id: expect.any(Number) });
      const settles = parts.facilitator.counts.settle;
      await other.reload(config(jobs));
      const sorted = { path: { city: "Paris" }, query: { days: 2, units: "metric" } };
      for (const same of [args, sorted])
        expect((await call(paid, same))?._meta).toMatchObject({ "jobgate/call": first });
      const replay = { isError: true, structuredContent: { code: "payment_replay" } };
      for (const unlike of [{ path: { city: "Rome" } }, { ...args, zz: 1 }, {}, null])
        expect(await call(paid, unlike)).toMatchObject(replay);
      expect(
        await call({ ...paid, "jobgate/headers": { accept: "text/plain" } }, { ...args, zz: 1 }),
      ).toMatchObject(replay);
      expect(parts.facilitator.counts.settle).toBe(settles);
    },
  );

  it("Is a replay by a tool of MCP without a route with one argument more, also once the tool is gone", async () => {
    const other = await startAnotherGateway({ config: config([{ serviceId: 1n, jobIndex: 0 }]) });
    const call = async (_meta: object, args: unknown) => {
      const params = { name: "job-1-0", arguments: args, _meta, task: {} };
      return (await sendRpc(`${other.url}/mcp`, "tools/call", params)).result;
    };
    const offer = (await call({}, { body: "work" }))?.structuredContent as unknown as PaymentRequired;
    const { payload } = await signV2Payment({ offer, account: accounts.payer });
    const paid = { "x402/payment": payload };
    const { "jobgate/call": first } = (await call(paid, { body: "work" }))?._meta ?? {};
    for (const jobs of [[{ serviceId: 1n, jobIndex: 0 }], []]) {
      await other.reload(config(jobs));
      expect((await call(paid, { body: "work" }))?._meta).toMatchObject({ "jobgate/call": first });
      expect(await call(paid, { body: "work", zz: 1 })).toMatchObject({
        isError: true,
        structuredContent: { code: "payment_replay" },
      });
    }
  });

  it.each<[string, object]>([
    ["an unknown argument", { path: { city: "Paris" }, units: "metric" }],
    ["an unknown parameter", { path: { city: "Paris", country: "France" } }],
    ["no parameter", {}],
    ["arguments that are no object", []],
  ])("Is a replay by its tool of MCP with %s, as with another request", async (_, args) => {
    const call = async (_meta: object, sent: object) =>
      sendRpc(`${gateway.url}/mcp`, "tools/call", { name: "job-1-0", arguments: sent, _meta, task: {} });
    const paris = { path: { city: "Paris" } };
    const offer = (await call({}, paris)).result?.structuredContent as unknown as PaymentRequired;
    const { payload } = await signV2Payment({ offer, account: accounts.payer });
    const paid = { "x402/payment": payload };
    expect(await call(paid, args)).toMatchObject({ error: { code: -32602 } });
    await call(paid, paris);
    expect((await call(paid, args)).result).toMatchObject({
      isError: true,
      structuredContent: { code: "payment_replay" },
    });
  });

  it("Gets the first outcome of a job that was bought at its ids before it had a route", async () => {
    const other = await startAnotherGateway({ config: config([]) });
    const request: Ask = { path: "/x402/jobs/1/0", method: "POST", body: "work" };
    const send = await sign(request, other);
    const { body } = await send();
    await other.reload(config());
    expect(await send()).toMatchObject({ status: 202, body: { call_id: body.call_id } });
    expect(await send({ path: "/weather/Paris" })).toMatchObject({ status: 409 });
  });
});

describe("At a route", () => {
  it("MPP binds its challenge to the whole request", async () => {
    const { headers } = await ask(PARIS);
    const [challenge] = readChallenges(headers.get("www-authenticate") ?? "");
    if (challenge === undefined) throw new Error("there is no challenge");
    expect(challenge.digest).toBeUndefined();
    const payment = await signChallenge({ challenge, account: accounts.payer });
    const pay = (change: Partial<Ask> = {}) =>
      ask({ ...PARIS, ...change, headers: { ...PARIS.headers, ...change.headers, ...payment.headers } });
    for (const change of [{ path: "/weather/Rome?units=metric" }, { headers: { accept: "text/plain" } }])
      expect(await pay(change)).toMatchObject({ status: 402, body: { code: "payment_mismatch" } });
    const bought = await pay();
    expect(bought).toMatchObject({ status: 202, body: { job_index: 0 } });
    expect(bought.headers.has("payment-receipt")).toBe(true);
    expect(await pay({ path: "/weather/Rome" })).toMatchObject({ status: 409 });
  });

  it("HEAD shows the headers of the 402, and never buys", async () => {
    const send = await sign(PARIS);
    const { status, headers } = await ask({ ...PARIS, method: "HEAD" });
    expect([status, headers.has("payment-required")]).toEqual([402, true]);
    const paid = await send({ method: "HEAD" });
    expect([paid.status, paid.headers.get("allow")]).toEqual([405, "GET, POST, PUT"]);
    expect(await send()).toMatchObject({ status: 202 });
  });

  it("OPTIONS answers with the methods of the path, and pages may read every header of an answer", async () => {
    const origin = { origin: "https://shop.example", "access-control-request-method": "PUT" };
    const { status, headers } = await ask({ ...PARIS, method: "OPTIONS", headers: origin });
    expect([status, headers.get("access-control-allow-methods")]).toEqual([204, "GET, HEAD, POST, PUT"]);
    expect(headers.get("access-control-allow-headers")?.split(", ")).toContain("accept");
    expect(headers.get("access-control-expose-headers")?.split(", ")).toContain("*");
  });

  it("A method that is not sold is answered 405 with the methods that are sold", async () => {
    const { status, headers, body } = await ask({ ...PARIS, method: "PATCH" });
    expect([status, body.code, body.charged]).toEqual([405, "method_not_allowed", false]);
    expect(headers.get("allow")).toBe("GET, HEAD, POST, PUT");
  });

  it("An upgrade is 501, and one to HTTP/2 is ignored", async () => {
    const upgrade = (protocol: string) =>
      rawRequest(gateway.url, "GET /weather/Paris", { connection: "close, upgrade", upgrade: protocol });
    const { status, body } = await upgrade("websocket");
    expect([status, JSON.parse(body)]).toMatchObject([
      501,
      { code: "upgrade_not_supported", charged: false },
    ]);
    expect((await upgrade("h2c")).status).toBe(402);
  });

  it("jobgate's own paths win", async () => {
    expect((await ask({ path: "/x402/health" })).status).toBe(200);
    expect((await ask({ path: "/llms.txt" })).headers.get("content-type")).toContain("text/markdown");
    expect(await ask({ path: "/anything/else" })).toMatchObject({ status: 402 });
  });

  test.each([
    "/weather/",
    "/weather//Paris",
    "/weather/a%2Fb",
    "/weather/%2e%2e",
    "/weather/../x",
    "/weather/a;b",
    "/weather/a\\b",
    "/weather/%00",
    "/weather/%C0%AF",
    "/weather/%zz",
    "http://jobgate.test/weather/Paris",
    "/weather/Paris?units=metric#now",
    "/weather/Paris?#",
  ])("A path with tricks is 404: %s", async (path) => {
    const { status, body } = await rawRequest(gateway.url, `GET ${path}`);
    expect([status, JSON.parse(body)]).toMatchObject([404, { code: "not_found", charged: false }]);
  });

  it.each([
    ["GET", "text/html; charset=utf-8"],
    ["POST", "application/json"],
  ])(
    "A browser that sends %s gets a 402 of type %s: the page buys what can be opened",
    async (method, type) => {
      const { status, headers } = await ask({ ...PARIS, method, headers: { accept: "text/html" } });
      expect([status, headers.get("content-type")]).toEqual([402, type]);
    },
  );
});

describe("A dry run of a job with a route", () => {
  const dryRun = (headers: Readonly<Record<string, string>>, path = "/x402/jobs/1/0/auth-dry-run") =>
    ask({ path, method: "POST", headers });

  it("Names the method and target of the request in X-HTTP-TARGET", async () => {
    const target = { "x-http-target": "GET /weather/Paris?units=metric" };
    expect(await dryRun(target)).toMatchObject({ status: 200, body: { allowed: true, job_index: 0 } });
  });

  test.each([
    [{}, 400, "bad_request"],
    [{ "x-http-target": "weather" }, 400, "bad_request"],
    [{ "x-http-target": "PUT /weather/Paris" }, 404, "not_found"],
    [{ "x-http-target": "GET /forecast" }, 404, "not_found"],
    [{ "x-http-target": "GET /weather//Paris" }, 404, "not_found"],
    [{ "x-http-target": "GET /weather/Paris?units=metric#x" }, 404, "not_found"],
    [{ "x-http-target": "GET /weather/Paris?units=m\u00e9tric" }, 404, "not_found"],
    [{ "x-http-target": "GET /weather/Paris#?units=metric" }, 404, "not_found"],
    [{ "x-http-target": "HEAD /weather/Paris" }, 405, "method_not_allowed"],
  ])("Is refused with %j", async (headers, status, code) => {
    expect(await dryRun(headers)).toMatchObject({ status, body: { allowed: false, code } });
  });

  test.each([
    ["query string", { "x-http-target": `GET /weather/Paris?${"a".repeat(8_193)}` }],
    ["header", { "x-http-target": "GET /weather/Paris", accept: "a".repeat(4_097) }],
  ])("Is refused with a %s that is too long for the runner", async (_, headers) => {
    expect(await dryRun(headers)).toMatchObject({
      status: 431,
      body: { allowed: false, code: "headers_too_large" },
    });
  });

  it("Finds what the payment bought, and refuses it for another request", async () => {
    const request: Ask = { path: "/weather/Oslo", method: "POST", body: "x" };
    const send = await sign(request);
    expect(await send()).toMatchObject({ status: 202 });
    const run = (target: string) =>
      send({ path: "/x402/jobs/1/0/auth-dry-run", headers: { "x-http-target": target } });
    expect(await run("POST /weather/Oslo")).toMatchObject({ status: 200, body: { replayed: true } });
    expect(await run("POST /weather/Rome")).toMatchObject({ status: 409, body: { code: "payment_replay" } });
  });
});
