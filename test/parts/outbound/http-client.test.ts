import { randomBytes } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { retryAfterMs } from "../../../src/parts/outbound/http-answer.ts";
import { HttpClient } from "../../../src/parts/outbound/http-client.ts";
import { listenHttp } from "../../helpers/http-listener.ts";

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const DAY_MS = 86_400_000;
/** Time that a sink takes for a piece. */
const TAKING_MS = 1;
/** Longest silence of a server. */
const SILENCE_MS = 1_000;

test.each([
  [undefined, undefined],
  ["120", 120_000],
  ["0", undefined],
  ["-1", undefined],
  ["soon", undefined],
  ["1.5", undefined],
  ["Fri, 02 Jan 2026 03:04:35 GMT", 30_000],
  ["Fri, 02 Jan 2026 03:04:05 GMT", undefined],
  ["2026-01-03", undefined],
  ["99999999999999999999999", 86_400_000],
  ["Sat, 02 Jan 2100 00:00:00 GMT", 86_400_000],
])("Retry-After %j waits %j ms", (value, expected) => {
  expect(retryAfterMs(value, NOW, DAY_MS)).toBe(expected);
});

test("A sink gets the body in pieces, and the next one only once it has taken the last", async () => {
  const body = randomBytes(1_000_000);
  const server = await listenHttp({ handler: (_request, response) => void response.end(body) });
  const client = new HttpClient({ url: server.url, concurrency: 1, timeoutMs: 10_000, timesSilence: true });
  onTestFinished(async () => {
    await client.close();
    await server.stop();
  });
  const pieces: Buffer[] = [];
  let taking = 0;
  let most = 0;
  const sink = async (bytes: Buffer) => {
    most = Math.max(most, ++taking);
    pieces.push(Buffer.from(bytes));
    await sleep(TAKING_MS);
    taking--;
  };
  const message = { method: "GET", target: "/", headers: {}, body: undefined, bodyLimit: () => 900_000 };
  const outcome = await client.send(message, () => undefined, { write: sink }).outcome;
  expect(outcome).toMatchObject({ kind: "answered", answer: { isCut: true } });
  expect([most, taking, Buffer.concat(pieces).equals(body.subarray(0, 900_000))]).toEqual([1, 0, true]);
});

test("A sink that takes longer than the server may be silent does not end the answer", async () => {
  const server = await listenHttp({ handler: (_request, response) => void response.end("slowly stored") });
  const client = new HttpClient({
    url: server.url,
    concurrency: 1,
    timeoutMs: SILENCE_MS,
    timesSilence: true,
  });
  onTestFinished(async () => {
    await client.close();
    await server.stop();
  });
  const message = { method: "GET", target: "/", headers: {}, body: undefined, bodyLimit: () => 1_000 };
  const write = () => sleep(2.5 * SILENCE_MS);
  const outcome = await client.send(message, () => undefined, { write }).outcome;
  expect(outcome).toMatchObject({ kind: "answered", answer: { isCut: false } });
});

test.each([204, 304])("The length that a %d names is not the length of its own body", async (status) => {
  const head = `HTTP/1.1 ${status} X\r\nContent-Length: 77\r\n\r\n`;
  const server = await listenHttp({ handler: ({ socket }) => void socket.write(head) });
  const client = new HttpClient({ url: server.url, concurrency: 1, timeoutMs: SILENCE_MS });
  onTestFinished(async () => {
    await client.close();
    await server.stop();
  });
  const message = { method: "GET", target: "/", headers: {}, body: undefined, bodyLimit: () => 1_000 };
  expect(await client.send(message).outcome).toMatchObject({ kind: "answered", answer: { status } });
  const streamed = await client.stream(message, undefined, AbortSignal.timeout(SILENCE_MS));
  expect([streamed.status, (await buffer(streamed.body)).length]).toEqual([status, 0]);
});
