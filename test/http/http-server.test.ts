import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { Agent, request } from "node:http";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import pino from "pino";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { BindAddress } from "../../src/config/config.ts";
import { GatewayError } from "../../src/errors.ts";
import { jsonResponse, textResponse } from "../../src/http/http-response.ts";
import { HttpServer, type HttpTimeouts } from "../../src/http/http-server.ts";
import type { MethodHandlers, RouteTable } from "../../src/http/routes.ts";
import { openSocket, rawRequest, readAnswers, sendRaw } from "../helpers/raw-request.ts";

const LOCAL: BindAddress = { kind: "tcp", host: "127.0.0.1", port: 0 };
const MAX_BODY = 100;
/** Quick enough to see them pass. */
const SHORT: Partial<HttpTimeouts> = { headersMs: 300, requestMs: 600, stopUploadMs: 200 };

function tableOf(routes: Record<string, MethodHandlers>): RouteTable {
  return (path) => (Object.hasOwn(routes, path) ? routes[path] : undefined);
}

/** Answers with the length of the body. */
const COUNT: MethodHandlers = {
  POST: async (incoming) =>
    jsonResponse(200, { length: (await incoming.readBody(MAX_BODY)).byteLength, path: incoming.path }),
};

async function startServer(
  options: {
    routes?: Record<string, MethodHandlers>;
    timeouts?: Partial<HttpTimeouts>;
    address?: BindAddress;
  } = {},
) {
  const { routes = {}, timeouts, address = LOCAL } = options;
  const logger = pino({ level: "silent" });
  const server = new HttpServer({ address, logger, ...(timeouts ? { timeouts } : {}) });
  const table = tableOf({ "/count": COUNT, ...routes });
  await server.mount(table);
  const stop = () => server.unmount(table);
  onTestFinished(stop);
  return { server, stop, url: address.kind === "unix" ? server.address : `http://${server.address}` };
}

async function isGone(url: string): Promise<boolean> {
  try {
    (await openSocket(url)).destroy();
    return false;
  } catch {
    return true;
  }
}

/** A promise, and what resolves it. */
function deferred() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

function closed(socket: Socket): Promise<unknown> {
  return socket.closed ? Promise.resolve() : once(socket, "close", { signal: AbortSignal.timeout(8_000) });
}

describe("paths and methods", () => {
  it("A path is compared as it was sent, and nothing but itself reaches its route", async () => {
    const { url } = await startServer();
    for (const path of [
      "/%63ount",
      "//count",
      "/count/",
      "/./count",
      "/x/../count",
      "/\\count",
      "/count%2F",
      "/%",
      "/count#x",
      "*",
      "http://jobgate.test/count",
    ]) {
      const answer = await rawRequest(url, `POST ${path}`);
      expect([path, answer.status, JSON.parse(answer.body).code]).toEqual([path, 404, "not_found"]);
      expect(answer.headers["cache-control"]).toBe("no-store");
    }
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
    expect(JSON.parse((await rawRequest(url, "POST /count?a=/b")).body)).toEqual({
      length: 0,
      path: "/count",
    });
  });

  it("Another method on a known path is 405, says which are allowed, and runs no handler", async () => {
    const handler = vi.fn(() => textResponse(200, "ok"));
    const refusalDetails = (code: string) => ({ because: code });
    const { url } = await startServer({
      routes: { "/both": { GET: handler, POST: handler, refusalDetails }, "/get": { GET: handler } },
    });
    for (const method of ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"]) {
      const answer = await rawRequest(url, `${method} /both`);
      expect([answer.status, answer.headers.allow]).toEqual([405, "GET, POST"]);
    }
    const { body } = await rawRequest(url, "PUT /both");
    expect(JSON.parse(body)).toMatchObject({ code: "method_not_allowed", because: "method_not_allowed" });
    expect((await rawRequest(url, "POST /get")).headers.allow).toBe("GET");
    expect(handler).not.toHaveBeenCalled();
  });
});

describe("limits", () => {
  it("A body of exactly the limit passes, one byte more is 413, announced or in chunks", async () => {
    const { url } = await startServer();
    const send = async (length: number, chunked: boolean) => {
      const bytes = Buffer.alloc(length, "x");
      const body = chunked ? new Blob([bytes]).stream() : bytes;
      const response = await fetch(`${url}/count`, { method: "POST", body, duplex: "half" } as RequestInit);
      return [response.status, await response.json()];
    };
    for (const chunked of [false, true]) {
      expect(await send(MAX_BODY, chunked)).toEqual([200, { length: MAX_BODY, path: "/count" }]);
      expect(await send(MAX_BODY + 1, chunked)).toMatchObject([413, { code: "body_too_large" }]);
    }
  });

  it("A body that is announced as too large is refused before it is sent", async () => {
    const { url } = await startServer();
    const socket = await openSocket(url);
    socket.write(
      "POST /count HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 999999999999\r\n\r\n",
    );
    const [head] = (await once(socket, "data")) as [Buffer];
    expect(head.toString()).toMatch(/^HTTP\/1\.1 413 /);
    socket.destroy();
  });

  it("Garbage: a 1 MB header is answered 431 as JSON, and the server goes on", async () => {
    const { url } = await startServer();
    const bytes = `POST /count HTTP/1.1\r\nhost: a\r\nx-payment: ${"A".repeat(1_000_000)}\r\n\r\n`;
    const [answer, ...more] = await sendRaw(url, bytes);
    expect([answer?.status, JSON.parse(answer?.body ?? "").code]).toEqual([431, "headers_too_large"]);
    expect(answer?.headers).toMatchObject({
      "content-type": "application/json",
      "cache-control": "no-store",
      connection: "close",
    });
    expect(more).toEqual([]);
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
  });

  it("A malformed request is answered 400 as JSON", async () => {
    const { url } = await startServer();
    for (const bytes of [
      "this is not HTTP\r\n\r\n",
      "POST /count HTTP/1.1\r\nbad header\r\n\r\n",
      "POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n",
      "POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
      "POST /count HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nnot a chunk\r\n",
      "POST /count HTTP/1.1\r\nconnection: close\r\n\r\n",
    ]) {
      const [answer] = await sendRaw(url, bytes);
      expect([bytes, answer?.status]).toEqual([bytes, 400]);
      expect(JSON.parse(answer?.body ?? "")).toEqual({ error: expect.any(String), code: "bad_request" });
    }
  });

  it("A client that keeps sending after it was refused gets time to read the answer, and is then cut off", async () => {
    const { url } = await startServer();
    const socket = await openSocket(url);
    // node:net ends its own side when the server does, unless it is told not to.
    socket.allowHalfOpen = true;
    socket.write("garbage\r\n\r\n");
    socket.resume();
    await once(socket, "end");
    const refusedAt = performance.now();
    // Only to a side that is closed for good does writing fail.
    const timer = setInterval(() => socket.write("x"), 50);
    onTestFinished(() => clearInterval(timer));
    await Promise.race([once(socket, "error"), closed(socket)]);
    expect(performance.now() - refusedAt).toBeGreaterThan(1_500);
  });

  it("Garbage behind a request that is still being worked on never passes for its answer", async () => {
    const { promise: release, resolve } = deferred();
    const worked = vi.fn();
    const slow: MethodHandlers = {
      POST: async () => {
        await release;
        worked();
        return textResponse(202, "done");
      },
    };
    const { url } = await startServer({ routes: { "/slow": slow } });
    const answers = await sendRaw(
      url,
      "POST /slow HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\nthis is not HTTP\r\n\r\n",
    );
    expect(answers).toEqual([]);
    resolve();
    await vi.waitFor(() => expect(worked).toHaveBeenCalledOnce());
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
  });
});

describe("clients that misbehave", () => {
  it("Client: one that hangs up mid-body leaves nothing in hand", async () => {
    const { url, stop } = await startServer({ timeouts: { stopUploadMs: 60_000, stopMs: 60_000 } });
    const socket = await openSocket(url);
    socket.write("POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: 50\r\n\r\nhalf");
    await sleep(50);
    socket.resetAndDestroy();
    await closed(socket);
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
    await stop();
    expect(await isGone(url)).toBe(true);
  });

  it("Client: one that hangs up before its body is asked for leaves nothing in hand", async () => {
    const asked = deferred();
    const hungUp = deferred();
    const late: MethodHandlers = {
      POST: async (incoming) => {
        asked.resolve();
        await hungUp.promise;
        await incoming.readBody(MAX_BODY);
        return textResponse(200, "never");
      },
    };
    const { url, stop } = await startServer({
      routes: { "/late": late },
      timeouts: { stopUploadMs: 60_000, stopMs: 60_000 },
    });
    const socket = await openSocket(url);
    socket.write("POST /late HTTP/1.1\r\nhost: a\r\ncontent-length: 50\r\n\r\nhalf");
    await asked.promise;
    socket.resetAndDestroy();
    await sleep(50);
    hungUp.resolve();
    await stop();
    expect(await isGone(url)).toBe(true);
  });

  it("Client: one that hangs up before its answer harms nobody", async () => {
    const asked = deferred();
    const hungUp = deferred();
    const slow: MethodHandlers = {
      POST: async () => {
        asked.resolve();
        await hungUp.promise;
        return textResponse(200, "x".repeat(1_000_000));
      },
    };
    const { url, stop } = await startServer({ routes: { "/slow": slow } });
    const socket = await openSocket(url);
    socket.write("POST /slow HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    await asked.promise;
    socket.resetAndDestroy();
    await sleep(50);
    hungUp.resolve();
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
    await stop();
  });

  it("Client: one that sends its headers or its body a byte at a time is answered 408 after its time", async () => {
    const { url } = await startServer({ timeouts: SHORT });
    const drip = async (start: string) => {
      const socket = await openSocket(url);
      socket.write(start);
      const timer = setInterval(() => socket.write("x"), 50);
      onTestFinished(() => clearInterval(timer));
      const startedAt = performance.now();
      const [answer] = await readAnswers(socket);
      clearInterval(timer);
      return { code: JSON.parse(answer?.body ?? "").code, ms: performance.now() - startedAt };
    };
    for (const start of [
      "POST /count HTTP/1.1\r\nhost: a\r\nx-slow: ",
      "POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: 90\r\n\r\n",
    ]) {
      const { code, ms } = await drip(start);
      expect(code).toBe("request_timeout");
      expect(ms).toBeGreaterThan(250);
      // The time-out, the check for it, and the time a refused client is given.
      expect(ms).toBeLessThan(4_000);
    }
  });

  it("Client: 1,000 idle connections do not stop others, nor the stopping", async () => {
    const { url, stop } = await startServer();
    const idle = await Promise.all(Array.from({ length: 1_000 }, () => openSocket(url)));
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
    const startedAt = performance.now();
    await stop();
    expect(performance.now() - startedAt).toBeLessThan(3_000);
    await Promise.all(idle.map(closed));
  });
});

describe("faults in a route", () => {
  it("An unexpected error is answered 500 without its text, and logged", async () => {
    const fail: MethodHandlers = {
      POST: () => {
        throw new Error("secret detail");
      },
    };
    const { url } = await startServer({ routes: { "/fail": fail } });
    const answer = await rawRequest(url, "POST /fail");
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      500,
      { error: "Something went wrong inside jobgate.", code: "internal_error" },
    ]);
  });

  it("A header that HTTP cannot carry is answered 500, and splits no answer", async () => {
    const split = "text/html\r\nset-cookie: stolen=1";
    const fail: MethodHandlers = {
      GET: () => ({ status: 200, headers: { "content-type": split }, body: "x" }),
      POST: () => {
        throw new GatewayError("queue_full", "full", { headers: { "retry-after": split } });
      },
    };
    const { url } = await startServer({ routes: { "/fail": fail } });
    const answer = await rawRequest(url, "GET /fail");
    expect([answer.status, answer.headers["set-cookie"]]).toEqual([500, undefined]);
    expect(await sendRaw(url, "POST /fail HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")).toEqual([]);
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
  });
});

describe("mounting and stopping", () => {
  it("Two gateways given one server share its socket until the last one stops", async () => {
    const server = new HttpServer({ address: LOCAL, logger: pino({ level: "silent" }) });
    const gets = (answer: string): MethodHandlers => ({ GET: () => textResponse(200, answer) });
    const a = tableOf({ "/a": gets("a") });
    const b = tableOf({ "/b": gets("b") });
    await Promise.all([server.mount(a), server.mount(b)]);
    const url = `http://${server.address}`;
    expect((await rawRequest(url, "GET /a")).body).toBe("a");
    expect((await rawRequest(url, "GET /b")).body).toBe("b");

    await server.unmount(a);
    expect((await rawRequest(url, "GET /a")).status).toBe(404);
    expect((await rawRequest(url, "GET /b")).body).toBe("b");
    await server.unmount(b);
    await server.unmount(b);
    expect(await isGone(url)).toBe(true);
  });

  it("Stopping waits for the requests in hand and answers them", async () => {
    const asked = deferred();
    const release = deferred();
    const slow: MethodHandlers = {
      POST: async () => {
        asked.resolve();
        await release.promise;
        return textResponse(202, "done");
      },
    };
    const { url, stop } = await startServer({ routes: { "/slow": slow } });
    const inHand = rawRequest(url, "POST /slow");
    await asked.promise;
    let stopped = false;
    const stopping = stop().then(() => {
      stopped = true;
    });
    await vi.waitFor(async () => expect(await isGone(url)).toBe(true));
    expect(stopped).toBe(false);
    release.resolve();
    expect(await inHand).toMatchObject({ status: 202, body: "done" });
    await stopping;
  });

  it("While stopping, a kept-alive connection is told to come back later and closed", async () => {
    const asked = deferred();
    const release = deferred();
    const slow: MethodHandlers = {
      POST: async () => {
        asked.resolve();
        await release.promise;
        return textResponse(202, "done");
      },
    };
    const { url, stop } = await startServer({
      routes: { "/slow": slow, "/paid": { ...COUNT, refusalDetails: (code) => ({ charged: false, code }) } },
    });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const inHand = rawRequest(url, "POST /slow");
    await asked.promise;
    // Begun before the stop, so that its connection is not idle then; its request is whole only after it.
    const late = request(`${url}/paid`, { method: "POST", agent, headers: { "content-length": 1 } });
    late.flushHeaders();
    await sleep(50);
    const pipelined = await openSocket(url);
    pipelined.write("POST /count HTTP/1.1\r\nhost: a\r\n");
    await sleep(50);

    const stopping = stop();
    late.end("x");
    const [first] = (await once(late, "response")) as [import("node:http").IncomingMessage];
    expect(JSON.parse(await text(first))).toEqual({ length: 1, path: "/paid" });
    pipelined.write("content-length: 0\r\n\r\n");
    const [answer] = await readAnswers(pipelined);
    expect(answer).toMatchObject({ status: 503, headers: { connection: "close", "retry-after": "5" } });
    expect(JSON.parse(answer?.body ?? "")).toMatchObject({ code: "shutting_down" });
    release.resolve();
    expect((await inHand).status).toBe(202);
    await stopping;
  });

  it("A client that never finishes its body does not hold up the stop for long", async () => {
    const { url, stop } = await startServer({ timeouts: SHORT });
    const socket = await openSocket(url);
    socket.on("error", () => undefined);
    socket.write("POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: 90\r\n\r\n");
    await sleep(50);
    const startedAt = performance.now();
    await stop();
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it("An address in use is refused, and nothing is left running", async () => {
    const { server: first } = await startServer();
    const port = Number(first.address.split(":")[1]);
    const second = new HttpServer({
      address: { kind: "tcp", host: "127.0.0.1", port },
      logger: pino({ level: "silent" }),
    });
    const table = tableOf({});
    await expect(second.mount(table)).rejects.toThrow(/EADDRINUSE/);
    await second.unmount(table);
  });
});

describe("a unix socket", () => {
  it("It is open to its owner alone, and gone after the stop", async () => {
    const folder = await mkdtemp(join(tmpdir(), "jobgate-http-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const path = join(folder, "operator.sock");
    const { url, stop } = await startServer({ address: { kind: "unix", path } });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
    await stop();
    await expect(stat(path)).rejects.toThrow(/ENOENT/);
  });

  it("The file of a process that died is replaced", async () => {
    const folder = await mkdtemp(join(tmpdir(), "jobgate-http-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const path = join(folder, "operator.sock");
    const dies = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
    expect(() => execFileSync(process.execPath, ["-e", dies])).toThrow();
    expect((await stat(path)).isSocket()).toBe(true);
    const { url } = await startServer({ address: { kind: "unix", path } });
    expect((await rawRequest(url, "POST /count")).status).toBe(200);
  });
});
