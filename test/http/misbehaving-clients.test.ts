import type { Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { textResponse } from "../../src/http/response.ts";
import { openSocket, rawRequest, readAnswers } from "../helpers/raw-request.ts";
import { caughtUp, closed, heldRoute, isGone, MAX_BODY, SHORT, startServer } from "./server-harness.ts";

describe("clients that misbehave", () => {
  it("A client that hangs up mid-body leaves no request in progress", async () => {
    const { url, stop } = await startServer({ timeouts: { stopUploadMs: 60_000, stopMs: 60_000 } });
    const socket = await openSocket(url);
    socket.write("POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: 50\r\n\r\nhalf");
    await caughtUp(url);
    socket.resetAndDestroy();
    await closed(socket);
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
    await stop();
    expect(await isGone(url)).toBe(true);
  });

  it("A client that hangs up before its body is read leaves no request in progress", async () => {
    const late = heldRoute(async (incoming) => {
      await incoming.readBody(MAX_BODY);
      return textResponse(200, "never");
    });
    const { url, stop } = await startServer({
      routes: { "/late": late.handlers },
      timeouts: { stopUploadMs: 60_000, stopMs: 60_000 },
    });
    const socket = await openSocket(url);
    socket.write("POST /late HTTP/1.1\r\nhost: a\r\ncontent-length: 50\r\n\r\nhalf");
    await late.asked;
    socket.resetAndDestroy();
    await closed(socket);
    await caughtUp(url);
    late.release();
    await stop();
    expect(await isGone(url)).toBe(true);
  });

  it("A client that hangs up before its answer disturbs no others", async () => {
    const slow = heldRoute(() => textResponse(200, "x".repeat(1_000_000)));
    const { url, stop } = await startServer({ routes: { "/slow": slow.handlers } });
    const socket = await openSocket(url);
    socket.write("POST /slow HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    await slow.asked;
    socket.resetAndDestroy();
    await closed(socket);
    await caughtUp(url);
    slow.release();
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
    await stop();
  });

  it("A client that sends its headers or its body a byte at a time is answered 408 at the time-out", async () => {
    const { url } = await startServer({ timeouts: SHORT });
    for (const start of [
      "POST /count HTTP/1.1\r\nhost: a\r\nx-slow: ",
      "POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: 90\r\n\r\n",
    ]) {
      const startedAt = performance.now();
      const socket = await openSocket(url);
      socket.write(start);
      const timer = setInterval(() => socket.write("x"), 50);
      onTestFinished(() => clearInterval(timer));
      const [answer] = await readAnswers(socket);
      clearInterval(timer);
      expect(JSON.parse(answer?.body ?? "").code).toBe("request_timeout");
      expect(performance.now() - startedAt).toBeGreaterThan(250);
    }
  });

  it("1,000 idle connections delay neither others nor a stop", async () => {
    const { url, stop } = await startServer();
    const idle: Socket[] = [];
    // As many at once as the kernel's queue of new connections takes; it would drop others for a second.
    while (idle.length < 1_000) {
      idle.push(...(await Promise.all(Array.from({ length: 100 }, () => openSocket(url)))));
    }
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
    // Within the test's time-out; requests in progress would be given longer.
    await stop();
    await Promise.all(idle.map(closed));
  });
});
