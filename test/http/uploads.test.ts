import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { HttpRequest } from "../../src/http/request.ts";
import { jsonResponse } from "../../src/http/response.ts";
import type { MethodHandlers } from "../../src/http/routes.ts";
import { eventually } from "../helpers/eventually.ts";
import { openSocket, readAnswers, sendRaw } from "../helpers/raw-request.ts";
import { until } from "../helpers/until.ts";
import { MAX_BODY, SHORT, startServer } from "./server-harness.ts";

const MIB = 1024 * 1024;

/** Route that answers with the request's body. */
const ECHO = {
  POST: async (request: HttpRequest) => ({
    status: 200,
    headers: { "content-type": "application/octet-stream" },
    body: Buffer.from(await request.readBody(MIB)),
  }),
} satisfies MethodHandlers;

/** Starts an upload that stays open, and collects the server's answer. */
async function openUpload(url: string, head: string, bytes: string | Buffer) {
  const socket = await openSocket(url);
  onTestFinished(() => void socket.destroy());
  let heard = "";
  socket.on("data", (data: Buffer) => {
    heard += data;
  });
  socket.write(`POST ${head}\r\nhost: a\r\n\r\n`);
  if (!socket.write(bytes)) await once(socket, "drain");
  return { socket, heard: () => heard };
}

test("A body arrives unchanged however it is cut into pieces", async () => {
  const { url } = await startServer({ routes: { "/echo": ECHO } });
  const body = Buffer.from(Array.from({ length: 20_000 }, (_, i) => i % 251));
  const chunks = [1, 2, 4_095, 4_096, 4_097, 7_709].reduce<{ at: number; bytes: Buffer[] }>(
    ({ at, bytes }, length) => ({
      at: at + length,
      bytes: [
        ...bytes,
        Buffer.from(`${length.toString(16)}\r\n`),
        body.subarray(at, at + length),
        Buffer.from("\r\n"),
      ],
    }),
    { at: 0, bytes: [] },
  );
  expect(chunks.at).toBe(body.length);
  const head = "POST /echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
  const chunked = `${head}transfer-encoding: chunked\r\n\r\n`;
  const announced = `${head}content-length: ${body.length}\r\n\r\n`;
  for (const sent of [
    [Buffer.from(chunked), ...chunks.bytes, Buffer.from("0\r\n\r\n")],
    [Buffer.from(announced), body],
  ]) {
    const response = await fetchRaw(url, Buffer.concat(sent));
    expect(Buffer.compare(response, body)).toBe(0);
  }
});

test("A body is whole whenever it is read: before it arrives, between its pieces, and after its end", async () => {
  const arrived: string[] = [];
  const read: string[] = [];
  const { url } = await startServer({
    routes: {
      "/late": {
        POST: async (request) => {
          arrived.push(request.query);
          await eventually(() => expect(read).toContain(request.query));
          return ECHO.POST(request);
        },
      },
      "/echo": ECHO,
    },
  });
  // More than a stream buffers, so that its socket is paused too.
  const body = "0123456789".repeat(20_000);
  const half = body.length / 2;
  const small = "whole in one piece";
  const start = async (when: string, whole: string, bytes = whole) => {
    const socket = await openSocket(url);
    const answers = readAnswers(socket);
    const head = `POST /late?${when} HTTP/1.1\r\nhost: a\r\nconnection: close`;
    socket.write(`${head}\r\ncontent-length: ${whole.length}\r\n\r\n${bytes}`);
    await eventually(() => expect(arrived).toContain(when));
    return { socket, answers, whole };
  };

  const between = await start("between", body, body.slice(0, half));
  const after = await start("after", body);
  const smallAfter = await start("small-after", small);
  expect((await sendRaw(url, "POST /echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))[0]?.status).toBe(
    200,
  );
  read.push("between", "after", "small-after");
  between.socket.write(body.slice(half));
  for (const { answers, whole } of [between, after, smallAfter]) {
    const [answer] = await answers;
    expect([answer?.status, answer?.body === whole]).toEqual([200, true]);
  }
});

test("A body in pieces of one byte takes little more memory than its size", async () => {
  const { url } = await startServer({ routes: { "/echo": ECHO } });
  const pieces = Buffer.from("1\r\na\r\n".repeat(200_000));
  const before = process.memoryUsage.rss();
  const readers: Socket[] = [];
  const onRequest = (message: unknown) => void readers.push((message as { socket: Socket }).socket);
  subscribe("http.server.request.start", onRequest);
  onTestFinished(() => void unsubscribe("http.server.request.start", onRequest));
  for (let i = 0; i < 2; i++) {
    await openUpload(url, "/echo HTTP/1.1\r\ntransfer-encoding: chunked", pieces);
  }
  await until(() => readers.length === 2 && readers.every(({ bytesRead }) => bytesRead > pieces.length));
  // Kept by themselves, the 400,000 pieces would take at least half as much again.
  expect(process.memoryUsage.rss() - before).toBeLessThan(50 * MIB);
});

test("When more bodies arrive than may be held, the oldest is refused", async () => {
  let begun = 0;
  const counting: MethodHandlers = {
    POST: async (request) => {
      begun++;
      return jsonResponse(200, { length: (await request.readBody(MAX_BODY)).length });
    },
  };
  const { url } = await startServer({
    maxHeldBodyBytes: 10 * MAX_BODY,
    routes: { "/counting": counting },
  });
  const head = `/counting HTTP/1.1\r\ncontent-length: ${MAX_BODY}`;
  const uploads = [];
  for (let i = 0; i < 10; i++) uploads.push(await openUpload(url, head, "x"));
  await eventually(() => expect(begun).toBe(10));
  expect(uploads.map(({ heard }) => heard())).toEqual(Array(10).fill(""));

  const [answer] = await sendRaw(
    url,
    `POST ${head}\r\nconnection: close\r\nhost: a\r\n\r\n${"x".repeat(MAX_BODY)}`,
  );
  expect([answer?.status, JSON.parse(answer?.body ?? "")]).toMatchObject([200, { length: MAX_BODY }]);
  const [oldest, second] = uploads;
  await eventually(() => expect(oldest?.heard()).toMatch(/^HTTP\/1\.1 503 (?:.*\r\n)*retry-after: 1\r\n/i));
  expect(oldest?.heard()).toContain('"code":"too_many_uploads"');
  // The others go on, and the refused one no longer counts.
  second?.socket.write("x".repeat(MAX_BODY - 1));
  await eventually(() => expect(second?.heard()).toMatch(/^HTTP\/1\.1 200 /));
  expect(uploads.slice(2).map(({ heard }) => heard())).toEqual(Array(8).fill(""));
});

test("A refusal after the headers has the route's extra fields", async () => {
  const details: MethodHandlers = {
    POST: async (request) => jsonResponse(200, { length: (await request.readBody(MAX_BODY)).length }),
    refusalDetails: (code) => ({ about: code }),
  };
  const routes = { "/paid": details };
  const { url } = await startServer({ routes });
  const hasty = await startServer({ routes, timeouts: SHORT });
  for (const [to, bytes, status, code] of [
    [
      url,
      "POST /paid?a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nno chunk\r\n",
      400,
      "bad_request",
    ],
    [url, "POST /paid HTTP/1.1\r\nconnection: close\r\n\r\n", 400, "bad_request"],
    [hasty.url, "POST /paid HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nx", 408, "request_timeout"],
  ] as const) {
    const [answer] = await sendRaw(to, bytes);
    expect([answer?.status, JSON.parse(answer?.body ?? "")]).toMatchObject([status, { code, about: code }]);
  }
});

test("Ignores an unknown expectation, and meets 100-continue", async () => {
  const { url } = await startServer();
  for (const expectation of ["anything-else", "100-continue"]) {
    const answers = await sendRaw(
      url,
      `POST /count HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: ${expectation}\r\ncontent-length: 2\r\n\r\nok`,
    );
    expect(answers.at(-1)).toMatchObject({ status: 200, body: '{"length":2,"path":"/count"}' });
  }
});

/** Sends bytes that ask for the connection to be closed, and returns the body of the answer. */
async function fetchRaw(url: string, bytes: Buffer): Promise<Buffer> {
  const socket = await openSocket(url);
  const received: Buffer[] = [];
  socket.on("data", (data: Buffer) => received.push(data));
  socket.write(bytes);
  await once(socket, "close");
  const all = Buffer.concat(received);
  return all.subarray(all.indexOf("\r\n\r\n") + 4);
}
