import { describe, expect, it, vi } from "vitest";
import { GatewayError } from "../../src/core/errors.ts";
import { textResponse } from "../../src/http/response.ts";
import type { MethodHandlers } from "../../src/http/routes.ts";
import { rawRequest, sendRaw } from "../helpers/raw-request.ts";
import { startServer } from "./server-harness.ts";

describe("paths and methods", () => {
  it("Compares paths byte for byte: no other spelling reaches a route", async () => {
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
      "/count#?a=b",
      "/count?a=b#c",
      "/count?#",
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

  it("Refuses another method on a known path with 405 and the allowed ones", async () => {
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

describe("every answer", () => {
  it("Forbids browsers to guess its type, and has an ID that no other answer of any server has, whoever writes it", async () => {
    const adapter: MethodHandlers = { GET: () => (_, outgoing) => void outgoing.end("hi") };
    const stream: MethodHandlers = {
      GET: () => ({
        status: 200,
        stream: (async function* () {
          yield "hi";
        })(),
      }),
    };
    const text: MethodHandlers = { GET: () => textResponse(200, "hi") };
    const { url } = await startServer({ routes: { "/adapter": adapter, "/stream": stream, "/text": text } });
    const ids: (string | null)[] = [];
    const lines = ["POST /count", "GET /text", "GET /stream", "GET /adapter", "GET /missing", "PUT /count"];
    for (const line of lines) {
      const [method = "", path = ""] = line.split(" ");
      const answer = await fetch(`${url}${path}`, { method });
      await answer.arrayBuffer();
      expect([line, answer.headers.get("x-content-type-options")]).toEqual([line, "nosniff"]);
      ids.push(answer.headers.get("x-request-id"));
    }
    expect(ids).toEqual(lines.map((_, index) => `${ids[0]?.slice(0, 11)}-${index + 1}`));
    const other = await startServer({ routes: { "/text": text } });
    const elsewhere = (await fetch(`${other.url}/text`)).headers.get("x-request-id");
    expect(elsewhere).toMatch(/^r[0-9a-f]{10}-1$/);
    expect(ids).not.toContain(elsewhere);
    const [broken] = await sendRaw(url, "garbage\r\n\r\n");
    expect(broken?.headers["x-content-type-options"]).toBe("nosniff");
  });
});

describe("faults in a route", () => {
  it("Answers an unexpected error with 500, without its text, which the log has", async () => {
    const fail: MethodHandlers = {
      POST: () => {
        throw new Error("secret detail");
      },
    };
    const { url, errors } = await startServer({ routes: { "/fail": fail } });
    const answer = await rawRequest(url, "POST /fail");
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      500,
      { error: "Something went wrong inside jobgate.", code: "internal_error" },
    ]);
    const logged = {
      request: expect.stringMatching(/^r[0-9a-f]{10}-1$/),
      route: "/fail",
      err: { message: "secret detail" },
    };
    expect(errors).toMatchObject([{ msg: "request failed unexpectedly", ...logged }]);
  });

  it("Answers 500 instead of a header with a line break, which would split the answer", async () => {
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
