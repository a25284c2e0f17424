import { EventEmitter, once } from "node:events";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { HttpResponse, StreamingResponse } from "../../src/http/response.ts";
import { openSocket } from "../helpers/raw-request.ts";
import { startServer } from "./server-harness.ts";

const GET = "GET /answer HTTP/1.1\r\nhost: a\r\n\r\n";
/** More than the buffers of a connection take. */
const PIECE = Buffer.alloc(1_000_000);
const PIECES = 20;
/** Time in which an answer would be taken for sent that must not be. */
const SENDING_MS = 300;

type Client = Awaited<ReturnType<typeof openSocket>>;

async function* pieces() {
  for (let i = 0; i < PIECES; i++) yield PIECE;
}

/** Sends a request, and answers it once `first` was done. */
async function request(
  answer: HttpResponse | StreamingResponse,
  first: (socket: Client) => unknown = () => undefined,
) {
  let isSent = false;
  const steps = new EventEmitter();
  const asked = once(steps, "asked");
  const onSent = () => {
    isSent = true;
  };
  const handle = async () => {
    const ready = once(steps, "ready");
    steps.emit("asked");
    await ready;
    return { ...answer, onSent };
  };
  const { url } = await startServer({ routes: { "/answer": { GET: handle } } });
  const socket = await openSocket(url);
  socket.on("error", () => undefined);
  socket.write(GET);
  await asked;
  first(socket);
  // The client's side runs in these turns, and the server reads what it did.
  for (let turns = 0; turns < 10; turns++) await turn();
  steps.emit("ready");
  return { socket, isSent: () => isSent };
}

async function expectNeverSent(request: { readonly socket: Client; isSent(): boolean }): Promise<void> {
  await sleep(SENDING_MS);
  expect(request.isSent()).toBe(false);
  request.socket.destroy();
  await sleep(SENDING_MS);
  expect(request.isSent()).toBe(false);
}

describe("A whole answer counts as sent", () => {
  it.each<[string, () => HttpResponse | StreamingResponse]>([
    ["short", () => ({ status: 200, body: "all" })],
    ["long", () => ({ status: 200, stream: pieces() })],
  ])("once a client has read a %s one", async (_, answer) => {
    const { socket, isSent } = await request(answer());
    socket.resume();
    await expect.poll(isSent, { timeout: 10_000 }).toBe(true);
  });

  it("never while a part of it waits for a slow reader", async () => {
    await expectNeverSent(await request({ status: 200, stream: pieces() }, (socket) => socket.pause()));
  });

  it("never once he has left in the middle of it", async () => {
    const sent = await request({ status: 200, stream: pieces() });
    await once(sent.socket, "data");
    sent.socket.destroy();
    await expectNeverSent(sent);
  });

  it.each<[string, (socket: Client) => unknown]>([
    ["closed his side", (socket) => socket.end()],
    ["left", (socket) => socket.destroy()],
  ])("never where its client had %s before", async (_, leave) => {
    await expectNeverSent(await request({ status: 200, body: "all" }, leave));
  });
});
