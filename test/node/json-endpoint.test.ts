import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { afterEach, expect, test } from "vitest";
import { JsonEndpoint } from "../../src/node/json-endpoint.ts";
import { type HttpListener, listenHttp } from "../helpers/http-listener.ts";

const MAX_ANSWER_BYTES = 1_000;

let listener: HttpListener | undefined;
afterEach(() => listener?.stop());

interface Received {
  readonly path: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  /** Port of the client's end of the connection. */
  readonly from: number | undefined;
}

async function serve(
  answer: (response: ServerResponse, request: IncomingMessage) => void,
  timeoutMs = 50_000,
) {
  const received: Received[] = [];
  const started = await listenHttp({
    handler: (request, response) => {
      void text(request).then((body) => {
        received.push({ path: request.url, headers: request.headers, body, from: request.socket.remotePort });
        answer(response, request);
      });
    },
  });
  listener = started;
  const { url, sockets } = started;
  const endpoint = (path = "/", headers = {}) =>
    new JsonEndpoint({ url: `${url}${path}`, headers, timeoutMs, maxAnswerBytes: MAX_ANSWER_BYTES });
  return { endpoint, received, sockets };
}

test("Sends the JSON to the URL with its path and query, and returns status and text of any answer", async () => {
  const { endpoint, received } = await serve((response) => response.writeHead(418).end("grün"));
  const answer = await endpoint("/a/b?key=c%20d", { authorization: "Basic eA==" }).post('{"name":"ü"}');
  expect(answer).toMatchObject({ status: 418, text: "grün" });
  expect(received).toMatchObject([
    {
      path: "/a/b?key=c%20d",
      body: '{"name":"ü"}',
      headers: {
        authorization: "Basic eA==",
        "content-type": "application/json",
        "content-length": "13",
        "user-agent": "node",
      },
    },
  ]);
});

test("Requests one after another use one connection", async () => {
  const { endpoint, received } = await serve((response) => response.end("{}"));
  const kept = endpoint();
  for (let request = 0; request < 3; request++) await kept.post("{}");
  expect(new Set(received.map(({ from }) => from)).size).toBe(1);
});

test("After a server's restart at most one request fails, however many connections were kept", async () => {
  const { endpoint, sockets } = await serve((response) => response.end("{}"));
  const kept = endpoint();
  await Promise.all([kept.post("{}"), kept.post("{}"), kept.post("{}")]);
  for (const socket of sockets) socket.resetAndDestroy();
  let failed = 0;
  for (let request = 0; request < 3; request++) await kept.post("{}").catch(() => failed++);
  expect(failed).toBeLessThanOrEqual(1);
});

test("Follows no redirect", async () => {
  const { endpoint, received } = await serve((response) =>
    response.writeHead(307, { location: "/other" }).end(),
  );
  expect(await endpoint().post("{}")).toMatchObject({ status: 307, text: "" });
  expect(received).toHaveLength(1);
});

test("Refuses an answer over maxAnswerBytes, and takes one of exactly that size", async () => {
  let size = MAX_ANSWER_BYTES;
  const { endpoint } = await serve((response) => response.end("x".repeat(size)));
  expect((await endpoint().post("{}")).text).toHaveLength(size);
  size += 1;
  await expect(endpoint().post("{}")).rejects.toThrow("larger than 1000 bytes");
});

test("Fails when the server sends nothing, or not all of its answer, within the time", async () => {
  const silent = await serve(() => undefined, 50);
  await expect(silent.endpoint().post("{}")).rejects.toMatchObject({ name: "TimeoutError" });
  await listener?.stop();
  const slow = await serve((response) => void response.write("{"), 50);
  await expect(slow.endpoint().post("{}")).rejects.toMatchObject({ name: "TimeoutError" });
});

test("Fails when the connection is cut within an answer", async () => {
  const { endpoint } = await serve((response, { socket }) => {
    response.writeHead(200, { "content-length": "100" });
    response.write("{", () => socket.destroy());
  });
  await expect(endpoint().post("{}")).rejects.toThrow("aborted");
});
