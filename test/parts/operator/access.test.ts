import { request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { OperatorService } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { callJson, startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const guarded = startBeforeAll(() => startOperator({ token: TOKEN }));
const open = startBeforeAll(startOperator);

const bearer = { authorization: `Bearer ${TOKEN}` };

describe("the operator's token", () => {
  test("The API answers with the token, in any letter case of the scheme", async () => {
    for (const authorization of [`Bearer ${TOKEN}`, `bearer ${TOKEN}`]) {
      expect((await callJson(guarded.url, "GetTotals", {}, { authorization })).status).toBe(200);
    }
  });

  test.each([
    ["no token", {}],
    ["an empty token", { authorization: "Bearer " }],
    ["a wrong token", { authorization: "Bearer nonsense" }],
    ["the token and more", { authorization: `Bearer ${TOKEN}x` }],
    ["the token as a password", { authorization: `Basic ${btoa(`operator:${TOKEN}`)}` }],
  ])("Every method answers 401 UNAUTHENTICATED with %s", async (_, headers: Record<string, string>) => {
    for (const { name } of OperatorService.methods) {
      expect(await callJson(guarded.url, name, {}, headers)).toMatchObject({
        status: 401,
        answer: { code: "unauthenticated" },
      });
    }
  });

  test.each([
    ["Connect", createConnectTransport],
    ["gRPC-Web", createGrpcWebTransport],
  ])("A %s client without the token gets UNAUTHENTICATED, for streams too", async (_, transport) => {
    const client = createClient(OperatorService, transport({ httpVersion: "1.1", baseUrl: guarded.url }));
    const unary = await client.getTotals({}).catch((error: unknown) => error);
    expect(ConnectError.from(unary).code).toBe(Code.Unauthenticated);
    const stream = await client
      .tail({})
      [Symbol.asyncIterator]()
      .next()
      .catch((error: unknown) => error);
    expect(ConnectError.from(stream).code).toBe(Code.Unauthenticated);
  });

  test("Health needs no token", async () => {
    for (const path of ["/healthz", "/readyz"]) {
      expect((await fetch(guarded.url + path)).status).toBe(200);
    }
  });
});

describe("browsers", () => {
  /** Sends headers that `fetch` does not let a page set. */
  async function post(
    headers: Record<string, string>,
    { to = open, method = "POST", path = "/jobgate.v1.OperatorService/GetTotals" } = {},
  ): Promise<{ status: number; body: string }> {
    return new Promise((resolve, reject) => {
      const outgoing = request(
        to.url + path,
        { method, headers: { "content-type": "application/json", ...headers } },
        (incoming) => {
          text(incoming).then((body) => resolve({ status: incoming.statusCode ?? 0, body }), reject);
        },
      );
      outgoing.on("error", reject).end(method === "POST" ? "{}" : "");
    });
  }
  const port = () => new URL(open.url).port;

  test("A page of the listener itself may call the API", async () => {
    expect((await post({ origin: open.url, "sec-fetch-site": "same-origin" })).status).toBe(200);
    const local = `localhost:${port()}`;
    expect((await post({ origin: `http://${local}`, host: local })).status).toBe(200);
  });

  test("Refuses a page of another site, even if its name resolves to this machine", async () => {
    const rebound = `evil.example:${port()}`;
    for (const headers of [
      { origin: "http://evil.example" },
      { origin: "null" },
      { origin: `http://127.0.0.1:${Number(port()) + 1}` },
      { origin: open.url.replace("http:", "https:") },
      { origin: `http://${rebound}`, host: rebound },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
    ]) {
      const { status, body } = await post(headers);
      expect({ headers, status }).toEqual({ headers, status: 403 });
      expect(JSON.parse(body)).toMatchObject({ code: "permission_denied" });
    }
  });

  test("Without a token, refuses host names that anyone could point here", async () => {
    const host = `evil.example:${port()}`;
    for (const headers of [
      { host },
      { host, "sec-fetch-site": "same-origin" },
      { host: "localhost.evil.example" },
    ]) {
      for (const target of [{}, { method: "GET", path: "/metrics" }]) {
        const { status, body } = await post(headers, target);
        expect({ headers, status }).toEqual({ headers, status: 403 });
        expect(body).toContain("only at an IP address or localhost");
      }
    }
    for (const host of ["localhost", "LOCALHOST:1", "jobgate.localhost", "127.0.0.1", "[::1]:8405"]) {
      expect({ host, status: (await post({ host })).status }).toEqual({ host, status: 200 });
    }
  });

  test("Another site's page cannot drop a dead letter", async () => {
    const callId = await open.deadLetter();
    const drop = JSON.stringify({ call_ids: [callId] });
    for (const headers of [
      { origin: "http://evil.example", "content-type": "application/json" },
      { "sec-fetch-site": "cross-site", "content-type": "application/json" },
      { origin: "http://evil.example", "content-type": "text/plain" },
    ]) {
      const answer = await fetch(`${open.url}/jobgate.v1.OperatorService/DropDeadLetters`, {
        method: "POST",
        headers: headers as Record<string, string>,
        body: drop,
      });
      expect(answer.status).toBe(403);
    }
    expect(await open.store.findDeadLetter(callId)).toBeDefined();
    await open.store.dropDeadLetter(callId);
  });

  test("With a token, any host name and a TLS proxy work, but not another site", async () => {
    const host = "jobgate.example.com";
    const call = (headers: Record<string, string>) => post({ host, ...bearer, ...headers }, { to: guarded });
    for (const origin of [`http://${host}`, `https://${host}`]) {
      expect((await call({ origin, "sec-fetch-site": "same-origin" })).status).toBe(200);
    }
    for (const headers of [
      { origin: "https://evil.example" },
      { origin: `https://${host}:8443` },
      { origin: "null" },
      { "sec-fetch-site": "same-site" },
    ]) {
      expect({ headers, status: (await call(headers)).status }).toEqual({ headers, status: 403 });
    }
  });

  test("Refuses content types that a form can send without a preflight", async () => {
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "text/plain; application/json",
    ]) {
      const { status, body } = await post({ "content-type": type });
      expect({ type, status }).toEqual({ type, status: 400 });
      expect(body).toContain("content-type: application/json");
    }
  });

  test("Sends no CORS headers, and answers only POST", async () => {
    const preflight = await fetch(`${open.url}/jobgate.v1.OperatorService/GetTotals`, {
      method: "OPTIONS",
      headers: { "access-control-request-method": "POST" },
    });
    expect(preflight.status).toBe(405);
    expect([...preflight.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    expect((await fetch(`${open.url}/jobgate.v1.OperatorService/GetTotals`)).status).toBe(405);
  });

  test("Answers 400 to a missing or malformed Host header", async () => {
    const { hostname, port } = new URL(open.url);
    for (const [version, host] of [
      ["1.0", ""],
      ["1.1", "Host: [\r\n"],
    ]) {
      const socket = connect(Number(port), hostname);
      socket.end(
        `POST /jobgate.v1.OperatorService/GetTotals HTTP/${version}\r\n${host}content-type: application/json\r\n` +
          "content-length: 2\r\nconnection: close\r\n\r\n{}",
      );
      expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 /);
    }
  });
});

test("Refuses a request over 64 KiB", async () => {
  const { status, answer } = await callJson(
    open.url,
    "DropDeadLetters",
    { padding: "x".repeat(70_000) },
    bearer,
  );
  expect({ status, code: answer.code }).toEqual({ status: 429, code: "resource_exhausted" });
});
