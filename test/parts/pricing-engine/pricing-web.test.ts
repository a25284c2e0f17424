import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { fromBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-node";
import { Metadata, status } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { Health } from "../../../src/gen/grpc/health/v1/health_pb.ts";
import { GetJobPriceRequestSchema, PricingEngine } from "../../../src/gen/pricing_engine/pricing_pb.ts";
import { openSocket, sendRaw } from "../../helpers/raw-request.ts";
import { jobRequest, PAYMENT, parse, startServer } from "./pricing-server-harness.ts";

const PATH = "/pricing_engine.PricingEngine/GetJobPrice";

/** A client that calls jobgate as a page does: gRPC-Web over HTTP/1.1. */
async function startWeb(setup?: Parameters<typeof startServer>[0]) {
  const started = await startServer(setup);
  const url = `http://${started.server.address}`;
  const transport = createGrpcWebTransport({ baseUrl: url, httpVersion: "1.1" });
  return { ...started, url, transport, web: createClient(PricingEngine, transport) };
}

const request = (jobIndex?: number) => fromBinary(GetJobPriceRequestSchema, jobRequest(jobIndex));

test("A page gets a quote by gRPC-Web on the port that answers gRPC", async () => {
  const { web, ask, engine } = await startWeb({ findPayment: async () => PAYMENT });
  engine.faults.initialMetadata = metadata({ "x-engine-region": "eu" });
  engine.faults.trailingMetadata = metadata({ "x-engine-cost": "5" });
  let seen: (string | null)[] = [];
  const quote = await web.getJobPrice(request(), {
    headers: { "x-tenant": "a" },
    onHeader: (headers) => {
      seen = [headers.get("x-engine-region"), headers.get("access-control-allow-origin")];
    },
    onTrailer: (trailers) => seen.push(trailers.get("x-engine-cost"), trailers.get("grpc-status")),
  });
  expect(quote).toMatchObject({ quoteDetails: { serviceId: 1n }, x402Endpoint: PAYMENT.endpoint });
  expect(seen).toEqual(["eu", "*", "5", "0"]);
  expect(engine.calls[0]?.metadata.get("x-tenant")).toEqual(["a"]);
  expect((await ask()).status.code).toBe(status.OK);
});

test("A gRPC-Web error has the engine's code, text, details and metadata", async () => {
  const { web, engine } = await startWeb();
  const details = 'no: 100% of "café"';
  engine.faults.fail = {
    code: status.RESOURCE_EXHAUSTED,
    details,
    metadata: metadata({ "x-retry-in": "7" }),
  };
  const error = await web.getJobPrice(request()).catch((reason: unknown) => reason);
  if (!(error instanceof ConnectError)) throw error;
  expect([error.code, error.rawMessage]).toEqual([Code.ResourceExhausted, details]);
  expect(error.metadata.get("x-retry-in")).toBe("7");
});

test("A gRPC-Web call's deadline and its end reach the engine", async () => {
  const { web, url, engine } = await startWeb();
  engine.faults.delayMs = 3_600_000;
  const stop = new AbortController();
  const ended = expect(
    web.getJobPrice(request(), { timeoutMs: 9_000, signal: stop.signal }),
  ).rejects.toMatchObject({ code: Code.Canceled });
  await expect.poll(() => engine.calls.length).toBe(1);
  expect((engine.calls[0]?.deadlineMs ?? 0) - Date.now()).toBeLessThan(10_000);
  stop.abort();
  await ended;
  await expect.poll(() => engine.calls[0]?.cancelled).toBe(true);
  const socket = await openSocket(url);
  socket.write(webCall());
  await expect.poll(() => engine.calls.length).toBe(2);
  // A client that only closes its side may still read the answer.
  socket.resetAndDestroy();
  await expect.poll(() => engine.calls[1]?.cancelled).toBe(true);
});

test("gRPC-Web reaches every service of the listener, streams included", async () => {
  const { transport } = await startWeb();
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const health = createClient(Health, transport);
  for await (const { status } of health.watch({}, { signal: stop.signal })) {
    expect(status).toBe(1);
    break;
  }
});

test("A gRPC-Web call as base64 text is answered as text", async () => {
  const { url } = await startWeb({ findPayment: async () => PAYMENT });
  const bytes = frame(jobRequest());
  const parts = [bytes.subarray(0, 4), bytes.subarray(4)].map((part) => part.toString("base64"));
  const answer = await fetch(`${url}${PATH}`, {
    method: "POST",
    headers: { "content-type": "application/grpc-web-text" },
    body: parts.join(""),
  });
  expect(answer.headers.get("content-type")).toBe("application/grpc-web-text");
  const text = await answer.text();
  const decoded = Buffer.concat((text.match(/[^=]+=*/g) ?? []).map((part) => Buffer.from(part, "base64")));
  const length = decoded.readUInt32BE(1);
  expect(parse(decoded.subarray(5, 5 + length)).x402Endpoint).toBe(PAYMENT.endpoint);
  expect(decoded[5 + length]).toBe(0x80);
  expect(decoded.subarray(10 + length).toString()).toContain("grpc-status: 0\r\n");
});

test("A preflight lets a page of any origin call, without credentials", async () => {
  const { url } = await startWeb();
  const asked = "content-type,x-grpc-web,grpc-timeout,authorization";
  const answer = await fetch(`${url}${PATH}`, {
    method: "OPTIONS",
    headers: {
      origin: "https://shop.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": asked,
    },
  });
  expect(answer.status).toBe(204);
  const headers = Object.fromEntries(answer.headers);
  expect(headers).toMatchObject({
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "POST, OPTIONS",
    "access-control-allow-headers": asked,
    "access-control-expose-headers": "*",
  });
  expect(headers).not.toHaveProperty("access-control-allow-credentials");
});

test("The engine's own CORS headers and cookies do not reach a page", async () => {
  const { url, engine } = await startWeb({ findPayment: async () => PAYMENT });
  const own = {
    "access-control-allow-origin": "https://engine.example",
    "access-control-allow-credentials": "true",
    "set-cookie": "session=1",
  };
  engine.faults.initialMetadata = metadata({ ...own, "x-engine-region": "eu" });
  engine.faults.trailingMetadata = metadata(own);
  const answer = await callWeb(url, frame(jobRequest()));
  expect(answer.headers.get("x-engine-region")).toBe("eu");
  expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
  expect(answer.headers.getSetCookie()).toEqual([]);
  const body = await answer.text();
  expect(body).toContain("grpc-status: 0");
  expect(body).not.toMatch(/set-cookie|access-control/);
});

test.each([
  ["", Buffer.alloc(0)],
  [" in chunks", new ReadableStream({ start: (controller) => controller.close() })],
])("An empty gRPC-Web body%s is INVALID_ARGUMENT, and says so", async (_, body) => {
  const { url, engine } = await startWeb();
  const answer = await callWeb(url, body);
  expect([answer.status, answer.headers.get("grpc-status")]).toEqual([200, String(status.INVALID_ARGUMENT)]);
  expect(answer.headers.get("grpc-message")).toMatch(/body is empty; expected one message/);
  expect(engine.calls).toEqual([]);
});

test.each<{ what: string; init: RequestInit; refusal: [number, string] }>([
  { what: "GET", init: { method: "GET" }, refusal: [405, "method_not_allowed"] },
  { what: "JSON", init: { method: "POST", body: "{}" }, refusal: [400, "bad_request"] },
])("A request that is $what, not gRPC-Web, is refused", async ({ init, refusal }) => {
  const { url } = await startWeb();
  const answer = await fetch(`${url}${PATH}`, init);
  const { code } = (await answer.json()) as { code: string };
  expect([answer.status, code]).toEqual(refusal);
});

test.each(["-text", ""])(
  "A client that hangs up within a grpc-web%s request ends only its own call",
  async (type) => {
    const { server, ask } = await startWeb();
    const socket = connect(Number(server.address.split(":")[1]), "127.0.0.1");
    socket.write(
      `POST ${PATH} HTTP/1.1\r\nhost: h\r\ncontent-type: application/grpc-web${type}\r\ncontent-length: 500\r\n\r\nAAAA`,
    );
    await ask();
    socket.resetAndDestroy();
    await once(socket, "close");
    expect((await ask()).status.code).toBe(status.OK);
    await server.stop();
  },
);

test("CONNECT is answered 405, and a Transfer-Encoding other than chunked 400", async () => {
  const { url } = await startWeb();
  const [connected] = await sendRaw(url, "CONNECT example.com:443 HTTP/1.1\r\nhost: a\r\n\r\n");
  expect([connected?.status, connected?.headers.allow]).toEqual([405, "POST, OPTIONS"]);
  const head = `POST ${PATH} HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc-web+proto\r\n`;
  const [encoded] = await sendRaw(url, `${head}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`);
  expect(encoded?.status).toBe(400);
});

test("Good pipelined gRPC-Web calls before a malformed request are answered, and then it is", async () => {
  const { url, engine } = await startWeb();
  engine.faults.delayMs = 100;
  const socket = await openSocket(url);
  socket.write(Buffer.concat([webCall(), webCall(), Buffer.from("garbage\r\n\r\n")]));
  expect(await answersTo(socket)).toEqual(["HTTP/1.1 200", OK, "HTTP/1.1 200", OK, "HTTP/1.1 400"]);
});

test("A client that closes its side after a whole gRPC-Web call gets its answer", async () => {
  const { url, engine } = await startWeb();
  engine.faults.delayMs = 100;
  const socket = await openSocket(url);
  socket.end(webCall());
  expect(await answersTo(socket)).toEqual(["HTTP/1.1 200", OK]);
});

test("A gRPC connection whose first bytes come one by one is served", async () => {
  const { server, ask } = await startWeb();
  const socket = connect(Number(server.address.split(":")[1]), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.setNoDelay(true);
  const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (const byte of preface.slice(0, 5)) {
    socket.write(byte);
    // Another call's answer shows that the server has read the byte.
    await ask();
  }
  socket.write(preface.slice(5));
  socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
  const [answer] = (await once(socket, "data")) as [Buffer];
  // A SETTINGS frame.
  expect(answer[3]).toBe(4);
});

test("A server that is stopped answers gRPC-Web calls in progress, and drops silent connections", async () => {
  const { engine, server, web } = await startWeb();
  const silent = connect(Number(server.address.split(":")[1]), "127.0.0.1");
  const dropped = once(silent, "close");
  await once(silent, "connect");
  engine.faults.delayMs = 300;
  const asked = web.getJobPrice(request());
  await expect.poll(() => engine.calls.length).toBe(1);
  const stopped = server.stop();
  expect(await asked).toMatchObject({ quoteDetails: { serviceId: 1n } });
  await stopped;
  await dropped;
});

const OK = "grpc-status: 0";

/** Status lines and trailers of everything that is answered on a connection, until the server closes it. */
async function answersTo(socket: Socket): Promise<string[]> {
  let text = "";
  for await (const bytes of socket) text += (bytes as Buffer).toString("latin1");
  return text.match(/HTTP\/1\.1 \d+|grpc-status: \d+/g) ?? [];
}

function webCall(): Buffer {
  const body = frame(jobRequest());
  const head = `POST ${PATH} HTTP/1.1\r\nhost: a\r\ncontent-type: application/grpc-web+proto`;
  return Buffer.concat([Buffer.from(`${head}\r\ncontent-length: ${body.length}\r\n\r\n`), body]);
}

function callWeb(url: string, body: NonNullable<RequestInit["body"]>): Promise<Response> {
  const headers = { "content-type": "application/grpc-web+proto" };
  return fetch(`${url}${PATH}`, { method: "POST", headers, body, duplex: "half" } as RequestInit);
}

function frame(message: Buffer): Buffer {
  const header = Buffer.alloc(5);
  header.writeUInt32BE(message.length, 1);
  return Buffer.concat([header, message]);
}

function metadata(fields: Record<string, string>): Metadata {
  const made = new Metadata();
  for (const [key, value] of Object.entries(fields)) made.add(key, value);
  return made;
}
