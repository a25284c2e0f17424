import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { stat } from "node:fs/promises";
import { Agent, type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { textResponse } from "../../src/http/response.ts";
import type { MethodHandlers } from "../../src/http/routes.ts";
import { eventually } from "../helpers/eventually.ts";
import { openSocket, rawRequest, readAnswers } from "../helpers/raw-request.ts";
import { testFolder } from "../helpers/test-folder.ts";
import {
  COUNT,
  caughtUp,
  heldRoute,
  isGone,
  newServer,
  SHORT,
  startServer,
  tableOf,
} from "./server-harness.ts";

describe("mounting and stopping", () => {
  it("Two gateways given one server share its socket until the last one stops", async () => {
    const server = newServer();
    const gets = (answer: string): MethodHandlers => ({ GET: () => textResponse(200, answer) });
    const a = tableOf({ "/a": gets("a") });
    const b = tableOf({ "/b": gets("b") });
    await Promise.all([server.mount(a), server.mount(b)]);
    const url = `http://${server.address}`;
    expect((await rawRequest(url, "GET /a")).body).toBe("a");
    expect((await rawRequest(url, "GET /b")).body).toBe("b");

    await server.unmount(a);
    const left = await rawRequest(url, "GET /a");
    expect(left).toMatchObject({ status: 503, headers: { "retry-after": "5" } });
    expect(JSON.parse(left.body)).toMatchObject({ code: "shutting_down" });
    expect((await rawRequest(url, "GET /c")).status).toBe(404);
    expect((await rawRequest(url, "GET /b")).body).toBe("b");
    await server.unmount(b);
    await server.unmount(b);
    expect(await isGone(url)).toBe(true);
  });

  it("A stop waits for the requests in progress and answers them", async () => {
    const slow = heldRoute(() => textResponse(202, "done"));
    const { url, stop } = await startServer({ routes: { "/slow": slow.handlers } });
    const inHand = rawRequest(url, "POST /slow");
    await slow.asked;
    let stopped = false;
    const stopping = stop().then(() => {
      stopped = true;
    });
    await eventually(async () => expect(await isGone(url)).toBe(true));
    expect(stopped).toBe(false);
    slow.release();
    expect(await inHand).toMatchObject({ status: 202, body: "done" });
    await stopping;
  });

  it("During a stop, a kept-alive connection gets 503 and is closed", async () => {
    const slow = heldRoute(() => textResponse(202, "done"));
    const { url, stop } = await startServer({
      routes: {
        "/slow": slow.handlers,
        "/paid": { ...COUNT, refusalDetails: (code) => ({ charged: false, code }) },
      },
    });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const inHand = rawRequest(url, "POST /slow");
    await slow.asked;
    // Begins before the stop, so that its connection is not idle then, and completes after it.
    const late = request(`${url}/paid`, { method: "POST", agent, headers: { "content-length": 1 } });
    late.flushHeaders();
    const pipelined = await openSocket(url);
    pipelined.write("POST /count HTTP/1.1\r\nhost: a\r\n");
    await caughtUp(url);

    const stopping = stop();
    late.end("x");
    const [first] = (await once(late, "response")) as [IncomingMessage];
    expect(JSON.parse(await text(first))).toEqual({ length: 1, path: "/paid" });
    pipelined.write("content-length: 0\r\n\r\n");
    const [answer] = await readAnswers(pipelined);
    expect(answer).toMatchObject({ status: 503, headers: { connection: "close", "retry-after": "5" } });
    expect(JSON.parse(answer?.body ?? "")).toMatchObject({ code: "shutting_down" });
    slow.release();
    expect((await inHand).status).toBe(202);
    await stopping;
  });

  it("A client that never finishes its body is cut off soon after a stop begins", async () => {
    const { url, stop } = await startServer({ timeouts: SHORT });
    const socket = await openSocket(url);
    socket.on("error", () => undefined);
    socket.write("POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: 90\r\n\r\n");
    await caughtUp(url);
    // Within the test's time-out, which is shorter than the time for requests in progress.
    await stop();
  });

  it("Refuses an address in use, and leaves nothing running", async () => {
    const { server: first } = await startServer();
    const port = Number(first.address.split(":")[1]);
    const second = newServer({ address: { kind: "tcp", host: "127.0.0.1", port } });
    const table = tableOf({});
    await expect(second.mount(table)).rejects.toThrow(/EADDRINUSE/);
    await second.unmount(table);
  });
});

/** Returns a path in a new folder. */
async function socketPath(): Promise<string> {
  const folder = await testFolder();
  return join(folder, "operator.sock");
}

describe("a unix socket", () => {
  it("The socket has mode 0600, and is removed by the stop", async () => {
    const path = await socketPath();
    const { url, stop } = await startServer({ address: { kind: "unix", path } });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
    await stop();
    await expect(stat(path)).rejects.toThrow(/ENOENT/);
  });

  it("The socket file of a dead process is replaced", async () => {
    const path = await socketPath();
    const dies = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
    expect(() => execFileSync(process.execPath, ["-e", dies])).toThrow();
    expect((await stat(path)).isSocket()).toBe(true);
    const { url } = await startServer({ address: { kind: "unix", path } });
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
  });
});
