import { once } from "node:events";
import { expect, test } from "vitest";
import { jsonResponse, textResponse } from "../../src/http/response.ts";
import { healthHandlers } from "../../src/http/routes.ts";
import { openSocket, rawRequest, readAnswers, sendRaw } from "../helpers/raw-request.ts";
import { closed, heldRoute, startServer } from "./server-harness.ts";

const GOOD = "POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";

test("A client that closes its side after a whole request gets its answer, however long that takes", async () => {
  const { url } = await startServer({
    routes: {
      "/late": {
        POST: async (request) => {
          if (!request.closed.aborted) await once(request.closed, "abort");
          return textResponse(200, "after the client closed its side");
        },
      },
    },
  });
  const socket = await openSocket(url);
  socket.end(`${GOOD}POST /late HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n`);
  expect((await readAnswers(socket)).map(({ status }) => status)).toEqual([200, 200]);
});

test("A client that closes its side within a request is answered 400", async () => {
  const { url } = await startServer();
  const socket = await openSocket(url);
  socket.end(`${GOOD}POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf`);
  expect((await readAnswers(socket)).map(({ status }) => status)).toEqual([200, 400]);
});

test("A reader of a stream that closes its side ends the stream", async () => {
  let ended = false;
  const { url } = await startServer({
    routes: {
      "/events": {
        GET: (request) => ({
          status: 200,
          stream: (async function* () {
            yield "first";
            await new Promise((resolve) => request.closed.addEventListener("abort", resolve));
            ended = true;
          })(),
        }),
      },
    },
  });
  const socket = await openSocket(url);
  socket.write("GET /events HTTP/1.1\r\nhost: a\r\n\r\n");
  socket.once("data", () => socket.end());
  await closed(socket);
  await expect.poll(() => ended).toBe(true);
});

test("Good pipelined requests before a malformed one are answered, in order, and then it is", async () => {
  const slow = heldRoute(() => jsonResponse(200, { slow: true }));
  const { url } = await startServer({ routes: { "/slow": slow.handlers } });
  const held = "POST /slow HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
  for (const bad of ["garbage\r\n\r\n", "POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n"]) {
    const answers = sendRaw(url, `${held}${GOOD}${bad}${bad}`);
    await slow.asked;
    slow.release();
    const [first, second, third, ...more] = await answers;
    expect([first?.body, second?.status, third?.status, more]).toEqual(['{"slow":true}', 200, 400, []]);
    expect(JSON.parse(third?.body ?? "").code).toBe("bad_request");
  }
});

test("A Transfer-Encoding that is empty, unknown, doubled or more than chunked is answered 400, and ends the connection", async () => {
  const { url } = await startServer();
  const request = (framing: string) =>
    `POST /count HTTP/1.1\r\nhost: a\r\n${framing}\r\n\r\n2\r\nhi\r\n0\r\n\r\n`;
  for (const bad of [
    "transfer-encoding:",
    "transfer-encoding: gzip",
    "transfer-encoding: gzip, chunked",
    "transfer-encoding: chunked, chunked",
    "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
    "transfer-encoding: \r\ntransfer-encoding: chunked",
  ]) {
    const [answer, ...more] = await sendRaw(url, request(bad));
    expect([bad, answer?.status, more]).toEqual([bad, 400, []]);
    expect(JSON.parse(answer?.body ?? "").code).toBe("bad_request");
  }
  const [answer] = await sendRaw(url, request("connection: close\r\ntransfer-encoding: Chunked"));
  expect([answer?.status, JSON.parse(answer?.body ?? "").length]).toEqual([200, 2]);
});

test("CONNECT is answered 405 after the requests before it", async () => {
  const { url } = await startServer();
  const [first, second, ...more] = await sendRaw(
    url,
    `${GOOD}CONNECT example.com:443 HTTP/1.1\r\nhost: a\r\n\r\n`,
  );
  expect([first?.status, second?.status, more]).toEqual([200, 405, []]);
  expect(second?.headers.allow).toBe("GET, POST");
  expect(JSON.parse(second?.body ?? "").code).toBe("method_not_allowed");
});

test("HEAD on a health route is answered 200 without a body, and 405 elsewhere", async () => {
  const { url } = await startServer({ routes: { "/health": healthHandlers(() => textResponse(200, "ok")) } });
  const socket = await openSocket(url);
  socket.end("HEAD /health HTTP/1.1\r\nhost: a\r\n\r\n");
  let text = "";
  socket.on("data", (bytes) => {
    text += bytes;
  });
  await closed(socket);
  expect(text).toMatch(/^HTTP\/1\.1 200 [\s\S]*content-length: 2[\s\S]*\r\n\r\n$/i);
  expect((await rawRequest(url, "HEAD /count")).status).toBe(405);
});
