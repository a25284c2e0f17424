import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { HttpResponse, StreamingResponse } from "../../src/http/response.ts";
import { openSocket } from "../helpers/raw-request.ts";
import { startServer } from "./server-harness.ts";

const GET = "GET /answer HTTP/1.1\r\nhost: a\r\n\r\n";
/** More than the buffers of a connection take. */
const PIECE = Buffer.alloc(1_000_000);
const PIECES = 20;
/** Time that the answer takes to be made. */
const WORK_MS = 100;
/** Time in which an answer is sent that can be. */
const SENDING_MS = 300;

async function* pieces() {
  for (let i = 0; i < PIECES; i++) yield PIECE;
}

/** Sends a request for an answer, and tells whether the server takes it for sent, once it was read by `read`. */
async function isSentTo(
  answer: HttpResponse | StreamingResponse,
  read: (socket: Awaited<ReturnType<typeof openSocket>>) => Promise<unknown>,
): Promise<boolean> {
  let isSent = false;
  const onSent = () => {
    isSent = true;
  };
  const GETS = async () => {
    await sleep(WORK_MS);
    return { ...answer, onSent };
  };
  const { url } = await startServer({ routes: { "/answer": { GET: GETS } } });
  const socket = await openSocket(url);
  socket.on("error", () => undefined);
  socket.write(GET);
  await read(socket);
  await sleep(SENDING_MS);
  const was = isSent;
  socket.destroy();
  await sleep(WORK_MS);
  // It does not change its mind once the connection has ended.
  expect(isSent).toBe(was);
  return was;
}

const readAll = (bytes: number) => async (socket: NodeJS.ReadableStream) => {
  let size = 0;
  for await (const chunk of socket) {
    size += chunk.length;
    if (size > bytes) return;
  }
};

describe("A whole answer counts as sent", () => {
  it("once a client has read it", async () => {
    expect(await isSentTo({ status: 200, body: "all" }, readAll(20))).toBe(true);
    expect(await isSentTo({ status: 200, stream: pieces() }, readAll(PIECES * PIECE.length))).toBe(true);
  });

  it("never while a part of it waits for a slow reader, or once he has left", async () => {
    const answer = () => ({ status: 200, stream: pieces() });
    expect(await isSentTo(answer(), async (socket) => once(socket.resume(), "data"))).toBe(true);
    expect(await isSentTo(answer(), async (socket) => void socket.pause())).toBe(false);
    expect(
      await isSentTo(answer(), async (socket) => {
        await once(socket, "data");
        socket.destroy();
      }),
    ).toBe(false);
  });

  it("never where its client had closed his side before: he may have left", async () => {
    expect(await isSentTo({ status: 200, body: "all" }, async (socket) => void socket.end())).toBe(false);
    expect(await isSentTo({ status: 200, body: "all" }, async (socket) => void socket.destroy())).toBe(false);
  });
});
