import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { EventEmitter, once } from "node:events";
import type { Socket } from "node:net";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import type { HttpResponse, StreamingResponse } from "../../src/http/response.ts";
import { openSocket } from "../helpers/raw-request.ts";
import { startServer } from "./server-harness.ts";

const GET = "GET /answer HTTP/1.1\r\nhost: a\r\n\r\n";
const LAST = "GET /answer HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
/** Less than the buffers of a connection take: jobgate has written it whole at once. */
const BUFFERED = Buffer.alloc(300_000);
/** More than the buffers of a connection take. */
const PIECE = Buffer.alloc(1_000_000);
const PIECES = 20;
/** Silence by which an answer is taken, in a test that waits for it. */
const QUIET_MS = 300;
/** Time in which an answer would be taken for sent that must not be. */
const SENDING_MS = 1_300;

type Client = Awaited<ReturnType<typeof openSocket>>;

async function* pieces() {
  for (let i = 0; i < PIECES; i++) yield PIECE;
}

interface Options {
  readonly text?: string;
  /** Done before the request is answered. */
  readonly first?: (socket: Client) => unknown;
  /** Default: longer than the test. */
  readonly quietMs?: number;
}

/** Sends a request, and answers it. */
async function request(
  answer: HttpResponse | StreamingResponse,
  { text = GET, first = () => undefined, quietMs = 60_000 }: Options = {},
) {
  let isSent = false;
  const steps = new EventEmitter();
  const asked = once(steps, "asked");
  const onSent = async () => {
    await turn();
    isSent = true;
  };
  const handle = async () => {
    const ready = once(steps, "ready");
    steps.emit("asked");
    await ready;
    return { ...answer, onSent };
  };
  const sentBefore: boolean[] = [];
  const next = async () => {
    sentBefore.push(isSent);
    return { status: 200, body: "next" };
  };
  const { url } = await startServer({
    routes: { "/answer": { GET: handle }, "/next": { GET: next } },
    timeouts: { quietMs },
  });
  const socket = await openSocket(url);
  socket.allowHalfOpen = true;
  socket.on("error", () => undefined);
  socket.write(text);
  await asked;
  first(socket);
  // The client's side runs in these turns, and the server reads what it did.
  for (let turns = 0; turns < 10; turns++) await turn();
  steps.emit("ready");
  return { socket, isSent: () => isSent, sentBefore };
}

async function expectNeverSent({ isSent }: Awaited<ReturnType<typeof request>>): Promise<void> {
  await sleep(SENDING_MS);
  expect(isSent()).toBe(false);
}

/** Reads all of an answer with a body. */
async function readAll(socket: Client, bytes: number): Promise<void> {
  for (let size = 0; size <= bytes; ) size += ((await once(socket, "data")) as [Buffer])[0].byteLength;
}

describe("A whole answer counts as sent", () => {
  const ANSWERS: [string, number, () => HttpResponse | StreamingResponse][] = [
    ["short", 3, () => ({ status: 200, body: "all" })],
    ["long", PIECES * PIECE.length, () => ({ status: 200, stream: pieces() })],
  ];

  it.each(ANSWERS)("once a client that has read a %s one closes the connection", async (_, bytes, answer) => {
    const { socket, isSent } = await request(answer());
    await readAll(socket, bytes);
    expect(isSent()).toBe(false);
    socket.destroy();
    await expect.poll(isSent, { timeout: 10_000 }).toBe(true);
  });

  it("once it was the last one of its connection, and its client closes it too", async () => {
    const { socket, isSent } = await request({ status: 200, body: "all" }, { text: LAST });
    socket.resume();
    await once(socket, "end");
    expect(isSent()).toBe(false);
    socket.end();
    await expect.poll(isSent, { timeout: 10_000 }).toBe(true);
  });

  it("once it was the last one, and its client never closes the connection, which jobgate then does", async () => {
    const accepted: Socket[] = [];
    const note = (message: unknown) => void accepted.push((message as { readonly socket: Socket }).socket);
    subscribe("net.server.socket", note);
    onTestFinished(() => void unsubscribe("net.server.socket", note));
    const { socket, isSent } = await request({ status: 200, body: "all" }, { text: LAST, quietMs: QUIET_MS });
    socket.resume();
    await once(socket, "end");
    await expect.poll(isSent, { timeout: 10_000 }).toBe(true);
    await expect.poll(() => accepted.map(({ destroyed }) => destroyed), { timeout: 10_000 }).toEqual([true]);
  });

  it("before the next request on its connection is handled", async () => {
    const { socket, sentBefore } = await request({ status: 200, body: "all" });
    await readAll(socket, 3);
    socket.write("GET /next HTTP/1.1\r\nhost: a\r\n\r\n");
    await once(socket, "data");
    expect(sentBefore).toEqual([true]);
  });

  it.each<[string, (socket: Client) => unknown]>([
    ["keeps the connection open", () => undefined],
    ["had closed his side before", (socket) => socket.end()],
  ])("after a silence, where its client %s", async (_, first) => {
    const { socket, isSent } = await request({ status: 200, body: BUFFERED }, { first, quietMs: QUIET_MS });
    socket.resume();
    await expect.poll(isSent, { timeout: 10_000 }).toBe(true);
  });

  it("never while a part of it waits for a slow reader", async () => {
    const first = (socket: Client) => socket.pause();
    const sent = await request({ status: 200, stream: pieces() }, { first, quietMs: QUIET_MS });
    await expectNeverSent(sent);
    sent.socket.destroy();
    await expectNeverSent(sent);
  });

  it("never once the client has left in the middle of it", async () => {
    const sent = await request({ status: 200, stream: pieces() }, { quietMs: QUIET_MS });
    await once(sent.socket, "data");
    sent.socket.destroy();
    await expectNeverSent(sent);
  });

  it.each<[string, Options]>([
    ["", {}],
    [", having closed his side before", { first: (socket) => socket.end(), quietMs: QUIET_MS }],
  ])("never where it was written whole and its client resets the connection%s", async (_, options) => {
    const sent = await request({ status: 200, body: BUFFERED }, options);
    await once(sent.socket, "data");
    sent.socket.pause();
    sent.socket.resetAndDestroy();
    await expectNeverSent(sent);
  });

  it("never where its client had left before", async () => {
    const first = (socket: Client) => socket.destroy();
    await expectNeverSent(await request({ status: 200, body: "all" }, { first, quietMs: QUIET_MS }));
  });
});
