import { once } from "node:events";
import { ServerResponse } from "node:http";
import { Socket } from "node:net";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, test, vi } from "vitest";
import { RateLimit, WorkLimit } from "../../src/http/limits.ts";
import { HttpRequest } from "../../src/http/request.ts";
import { textResponse } from "../../src/http/response.ts";
import { Incoming, Uploads } from "../../src/http/uploads.ts";
import { openSocket, rawRequest, sendRaw } from "../helpers/raw-request.ts";
import { closed, MAX_BODY, startServer } from "./server-harness.ts";

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

  it("A Content-Length over the limit is refused before the body is sent", async () => {
    const { url } = await startServer();
    const socket = await openSocket(url);
    socket.write(
      "POST /count HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 999999999999\r\n\r\n",
    );
    const [head] = (await once(socket, "data")) as [Buffer];
    expect(head.toString()).toMatch(/^HTTP\/1\.1 413 /);
    socket.destroy();
  });

  it("A header of 1 MB is answered 431 as JSON, and the server keeps working", async () => {
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

  it("Drops no header, however many fit into the limit", async () => {
    const values: string[][] = [];
    const { url } = await startServer({
      routes: {
        "/values": {
          POST: async (incoming) => {
            values.push([...incoming.headerValues("x-signature")]);
            return textResponse(200, "ok");
          },
        },
      },
    });
    const lines = ["x-signature: first", ...Array<string>(4_000).fill("a:b"), "x-signature: last"];
    const [answer] = await sendRaw(
      url,
      `POST /values HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${lines.join("\r\n")}\r\n\r\n`,
    );
    expect([answer?.status, values]).toEqual([200, [["first", "last"]]]);
  });

  it("Finds every value of a header as Node does, in any letter case and order", () => {
    const name = fc.constantFrom(
      "a",
      "A",
      "x-signature",
      "X-Signature",
      "X-SIGNATURE",
      "constructor",
      "__proto__",
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.string())), (lines) => {
        const incoming = new Incoming(new Socket());
        Object.assign(incoming, { url: "/" });
        (incoming as unknown as { _addHeaderLines(headers: string[], count: number): void })._addHeaderLines(
          lines.flat(),
          2 * lines.length,
        );
        const request = new HttpRequest("r1", incoming, new ServerResponse(incoming), new Uploads());
        for (const asked of ["a", "x-signature", "constructor", "absent"])
          expect(request.headerValues(asked)).toEqual(incoming.headersDistinct[asked] ?? []);
      }),
    );
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
      "POST /count HTTP/1.1\r\nhost: a\r\nHost: b\r\nconnection: close\r\n\r\n",
    ]) {
      const [answer] = await sendRaw(url, bytes);
      expect([bytes, answer?.status]).toEqual([bytes, 400]);
      expect(JSON.parse(answer?.body ?? "")).toEqual({ error: expect.any(String), code: "bad_request" });
    }
  });

  it("A refused client that keeps sending has time to read the answer, and is then cut off", async () => {
    const { url } = await startServer();
    const socket = await openSocket(url);
    // node:net ends its own side by default when the server does.
    socket.allowHalfOpen = true;
    const sentAt = performance.now();
    socket.write("garbage\r\n\r\n");
    socket.resume();
    await once(socket, "end");
    // Writing fails only once the server has closed its side for good.
    const timer = setInterval(() => socket.write("x"), 50);
    onTestFinished(() => clearInterval(timer));
    await Promise.race([once(socket, "error"), closed(socket)]);
    expect(performance.now() - sentAt).toBeGreaterThan(1_500);
  });
});

describe("A rate limit", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("Allows as many uses in a window as the limit says, and the next window starts from zero", () => {
    const limit = new RateLimit(10);
    for (let use = 0; use < 3; use++) expect(limit.exceeded("a", 3)).toBeUndefined();
    vi.advanceTimersByTime(4_000);
    expect(limit.exceeded("a", 3)).toBe(6_000);
    vi.advanceTimersByTime(6_000);
    expect(limit.exceeded("a", 3)).toBeUndefined();
  });

  test("Each key has its own count and may have its own limit", () => {
    const limit = new RateLimit();
    const exceeded = [
      limit.exceeded("a", 1),
      limit.exceeded("b", 2),
      limit.exceeded("a", 1),
      limit.exceeded("b", 2),
      limit.exceeded("b", 2),
    ];
    expect(exceeded).toEqual([undefined, undefined, 1_000, undefined, 1_000]);
  });

  test("A refusal says in whole seconds when to try again", () => {
    const limit = new RateLimit(10);
    limit.count("a", 1, "Too much");
    vi.advanceTimersByTime(8_500);
    const refusal = expect.objectContaining({
      code: "rate_limited",
      message: "Too much: try again in 2 s.",
      headers: { "retry-after": "2" },
    });
    expect(() => limit.count("a", 1, "Too much")).toThrow(refusal);
  });
});

const BOUNDS = { perClient: 2, total: 3, reason: "Too much at once" };
const REFUSED = { code: "rate_limited", message: "Too much at once: try again in 1 s." };

test("Work is bounded for each client and in all, until it ends, well or not", async () => {
  const limit = new WorkLimit();
  const ends: ((error?: Error) => void)[] = [];
  const work = (client: string) =>
    limit.run(
      client,
      BOUNDS,
      () =>
        new Promise<void>((resolve, reject) => {
          ends.push((error) => (error ? reject(error) : resolve()));
        }),
    );
  const [first, second] = [work("a"), work("a")];
  await expect(work("a")).rejects.toMatchObject(REFUSED);
  const third = work("b");
  await expect(work("c")).rejects.toMatchObject(REFUSED);
  ends[0]?.();
  ends[1]?.(new Error("broken"));
  await first;
  await expect(second).rejects.toThrow("broken");
  const again = [work("a"), work("c")];
  await expect(work("d")).rejects.toMatchObject(REFUSED);
  for (const end of ends) end();
  await Promise.all([third, ...again]);
});
