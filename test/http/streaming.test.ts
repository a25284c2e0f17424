import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import type { HttpRequest } from "../../src/http/request.ts";
import { textResponse } from "../../src/http/response.ts";
import type { RouteHandler } from "../../src/http/routes.ts";
import { eventually } from "../helpers/eventually.ts";
import { openSocket } from "../helpers/raw-request.ts";
import { until } from "../helpers/until.ts";
import { startServer } from "./server-harness.ts";

const serve = (handler: RouteHandler) => startServer({ routes: { "/": { GET: handler } } });

async function get(url: string): Promise<{ sent: ClientRequest; response: IncomingMessage }> {
  const sent = request(url, { agent: false });
  sent.on("error", () => {});
  sent.end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  return { sent, response };
}

function streamOf(stream: AsyncIterable<string>, headers = {}) {
  return { status: 200, headers: { "content-type": "text/plain", ...headers }, stream };
}
const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve());
  });

test("Sends the headers before the first piece, each piece at once, and ends the answer with the stream", async () => {
  let next = (_piece: string | undefined): void => {};
  async function* pieces() {
    for (;;) {
      const piece = await new Promise<string | undefined>((resolve) => {
        next = resolve;
      });
      if (piece === undefined) return;
      yield piece;
    }
  }
  const { url } = await serve(() => streamOf(pieces(), { "x-own": "1" }));
  const { response } = await get(url);
  expect(response.headers).toMatchObject({ "x-own": "1", "transfer-encoding": "chunked" });
  for (const piece of ["one", "two"]) {
    next(piece);
    expect(String((await once(response, "data"))[0])).toBe(piece);
  }
  const rest = text(response);
  next(undefined);
  expect(await rest).toBe("");
});

test("A client that hangs up aborts the request's signal, and does not delay a stop", async () => {
  let request: HttpRequest | undefined;
  let finished = false;
  const { url, stop } = await serve((incoming) => {
    request = incoming;
    return streamOf(
      (async function* () {
        try {
          yield "hello";
          await aborted(incoming.closed);
        } finally {
          finished = true;
        }
      })(),
    );
  });
  const { sent } = await get(url);
  expect(request?.closed.aborted).toBe(false);
  sent.destroy();
  await eventually(() => expect([request?.closed.aborted, finished]).toEqual([true, true]));
  await stop();
});

test("A client that hangs up aborts its pipelined requests too, and they do not delay a stop", async () => {
  const requests: HttpRequest[] = [];
  const { url, stop } = await serve(async (incoming) => {
    requests.push(incoming);
    await aborted(incoming.closed);
    return textResponse(200, "late");
  });
  const socket = await openSocket(url);
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
  await eventually(() => expect(requests).toHaveLength(3));
  socket.destroy();
  await eventually(() => expect(requests.map(({ closed }) => closed.aborted)).toEqual([true, true, true]));
  await stop();
});

test("A request's signal aborts once its answer is sent", async () => {
  let closed: AbortSignal | undefined;
  const { url } = await serve((incoming) => {
    closed = incoming.closed;
    return textResponse(200, "done");
  });
  const { response } = await get(url);
  await text(response);
  await eventually(() => expect(closed?.aborted).toBe(true));
});

test("A stream that fails cuts its connection, so that the answer does not pass for complete; the log says why", async () => {
  const { url, errors } = await serve(() =>
    streamOf(
      (async function* () {
        yield "half";
        throw new Error("the other half is missing");
      })(),
    ),
  );
  const { response } = await get(url);
  await expect(text(response)).rejects.toThrow("aborted");
  const logged = {
    request: expect.stringMatching(/^r[0-9a-f]{10}-1$/),
    route: "/",
    err: { message: "the other half is missing" },
  };
  await eventually(() => expect(errors).toMatchObject([{ msg: "an answer could not be sent", ...logged }]));
});

test("A stream stops producing while its client does not read", async () => {
  let made = 0;
  const piece = "x".repeat(64 * 1024);
  const { url } = await serve(() =>
    streamOf(
      (async function* () {
        for (; made < 10_000; made++) {
          yield piece;
          await new Promise(setImmediate);
        }
      })(),
    ),
  );
  const { sent, response } = await get(url);
  response.pause();
  // While the server takes pieces, each turn of the event loop makes another.
  let before = 0;
  await until(() => {
    const stoodStill = made > 0 && made === before;
    before = made;
    return stoodStill || made >= 500;
  });
  expect(made).toBeLessThan(500);
  sent.destroy();
});

test("A 204 has no body and no Content-Length", async () => {
  const { url } = await serve(() => ({ status: 204, body: "" }));
  const { response } = await get(url);
  expect(response.headers["content-length"]).toBeUndefined();
  expect(await text(response)).toBe("");
});
