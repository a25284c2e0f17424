import { expect, onTestFinished, test } from "vitest";
import { Cors } from "../../src/http/cors.ts";
import type { HttpTimeouts } from "../../src/http/limits.ts";
import type { MethodHandlers } from "../../src/http/routes.ts";
import { openSocket, type RawAnswer, rawRequest, readAnswers, sendRaw } from "../helpers/raw-request.ts";
import { COUNT, heldRoute, MAX_BODY, newServer, SHORT, tableOf } from "./server-harness.ts";

const SHOP = "https://shop.example";
const FROM_SHOP = { origin: SHOP };

/** Serves `/open` to the pages of these origins, and `/closed` to none, on one socket. */
async function startShared(origins: readonly string[], routes: Record<string, MethodHandlers> = {}) {
  const { url, cors, server } = await startOpen(origins, routes);
  const closed = tableOf({ "/closed": COUNT });
  await server.mount(closed, { listener: "closed" });
  onTestFinished(() => server.unmount(closed));
  return { url, cors };
}

/** Serves `/open` and more routes to the pages of these origins. */
async function startOpen(
  origins: readonly string[],
  routes: Record<string, MethodHandlers> = {},
  timeouts: Partial<HttpTimeouts> = {},
) {
  const server = newServer({ timeouts });
  const cors = new Cors({ origins, exposes: "Location, X-Mine", allows: "X-Asked" });
  const open = tableOf({ "/open": COUNT, ...routes });
  await server.mount(open, { listener: "open", cors, prefix: "/open/" });
  const stop = () => server.unmount(open);
  onTestFinished(stop);
  return { url: `http://${server.address}`, cors, server, stop };
}

/** Returns the headers of an answer that decide what a page may do with it. */
function corsOf({ headers }: RawAnswer): unknown[] {
  return [
    headers["access-control-allow-origin"],
    headers["access-control-expose-headers"],
    headers.vary,
    headers["access-control-allow-credentials"],
  ];
}

const OPEN = ["*", "Location, X-Mine", undefined, undefined];
const CLOSED = [undefined, undefined, undefined, undefined];

test("OPTIONS on an open path is answered 204 without the path's handlers", async () => {
  const { url } = await startOpen(["*"]);
  const answer = await rawRequest(url, "OPTIONS /open", {
    ...FROM_SHOP,
    "access-control-request-method": "POST",
    "access-control-request-headers": "x-other",
  });
  expect([answer.status, answer.body]).toEqual([204, ""]);
  expect(answer.headers).toMatchObject({
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "POST",
    "access-control-allow-headers": "X-Asked",
    "access-control-max-age": "7200",
    allow: "POST",
  });
  expect((await rawRequest(url, "OPTIONS /nothing", FROM_SHOP)).status).toBe(404);
});

test("Every refusal of an open listener can be read by pages", async () => {
  const { url, server, stop } = await startOpen(["*"]);
  const hasty = await startOpen(["*"], {}, SHORT);
  const long = "x".repeat(40_000);
  const answers = [
    await rawRequest(url, "GET /nothing", FROM_SHOP),
    await rawRequest(url, "GET /open", FROM_SHOP),
    await rawRequest(url, "POST /open", FROM_SHOP, "x".repeat(MAX_BODY + 1)),
    await rawRequest(url, "POST /open", { ...FROM_SHOP, "transfer-encoding": "gzip, chunked" }),
    await rawRequest(url, "POST /open", { ...FROM_SHOP, long }),
    ...(await sendRaw(url, "POST /open HTTP/1.1\r\nconnection: close\r\n\r\n")),
    ...(await sendRaw(url, "garbage\r\n\r\n")),
    ...(await sendRaw(url, "CONNECT h:1 HTTP/1.1\r\nhost: h\r\n\r\n")),
    ...(await sendRaw(hasty.url, "POST /open HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nab")),
  ];
  expect(answers.map(({ status }) => status)).toEqual([404, 405, 413, 400, 431, 400, 400, 405, 408]);
  for (const answer of answers) expect([answer.status, corsOf(answer)]).toEqual([answer.status, OPEN]);

  const held = heldRoute(() => ({ status: 200, body: "" }));
  const other = tableOf({ "/held": held.handlers });
  await server.mount(other, { listener: "other", cors: new Cors({ origins: ["*"], exposes: "" }) });
  const first = rawRequest(url, "POST /held", FROM_SHOP);
  await held.asked;
  const stopped = stop();
  const refused = await rawRequest(url, "POST /open", FROM_SHOP);
  expect([refused.status, corsOf(refused)]).toEqual([503, OPEN]);
  held.release();
  await first;
  await Promise.all([stopped, server.unmount(other)]);
});

test("A streamed answer can be read by pages", async () => {
  const stream = async function* () {
    yield "one";
  };
  const { url } = await startOpen(["*"], { "/stream": { GET: () => ({ status: 200, stream: stream() }) } });
  const { headers } = await fetch(`${url}/stream`, { headers: FROM_SHOP });
  expect(headers.get("access-control-allow-origin")).toBe("*");
});

test("A listener that shares the socket stays closed to pages", async () => {
  const { url } = await startShared(["*"]);
  for (const path of ["/open", "/open/nothing"])
    expect(corsOf(await rawRequest(url, `POST ${path}`, FROM_SHOP))).toEqual(OPEN);
  const answers = [
    await rawRequest(url, "POST /closed", FROM_SHOP),
    await rawRequest(url, "GET /closed", FROM_SHOP),
    await rawRequest(url, "OPTIONS /closed", FROM_SHOP),
    // It could be the closed listener's.
    await rawRequest(url, "GET /nothing", FROM_SHOP),
    ...(await sendRaw(url, "garbage\r\n\r\n")),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 405, 405, 404, 400]);
  for (const answer of answers) expect(corsOf(answer)).toEqual(CLOSED);
});

test("A malformed request after good headers is answered as its path's listener answers", async () => {
  const { url } = await startShared(["*"]);
  for (const [path, expected] of [
    ["/open", OPEN],
    ["/closed", CLOSED],
  ]) {
    const socket = await openSocket(url);
    socket.write(`POST ${path} HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\nnot hex\r\n`);
    const [answer] = await readAnswers(socket);
    expect([answer?.status, answer && corsOf(answer)]).toEqual([400, expected]);
  }
});

test("A list of origins opens the listener to these, and caches keep their answers apart", async () => {
  const { url, cors } = await startOpen([SHOP, "https://other.example"]);
  const ask = async (headers: Record<string, string>) =>
    corsOf(await rawRequest(url, "POST /open", headers, "x"));
  expect(await ask(FROM_SHOP)).toEqual([SHOP, "Location, X-Mine", "Origin", undefined]);
  const none = [undefined, "Location, X-Mine", "Origin", undefined];
  expect(await ask({ origin: "https://evil.example" })).toEqual(none);
  expect(await ask({ origin: "null" })).toEqual(none);
  expect(await ask({})).toEqual(none);

  cors.allow({ origins: ["https://evil.example"], exposes: "Location, X-Mine" });
  expect(await ask(FROM_SHOP)).toEqual(none);
  expect((await ask({ origin: "https://evil.example" }))[0]).toBe("https://evil.example");
});
