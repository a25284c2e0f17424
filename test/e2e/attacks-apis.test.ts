import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { beforeEach, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { sendRaw } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

/** Heads of the requests that reached the API. */
const seen: string[] = [];
const MAX_RESULT_BYTES = 300_000;

/** An API that answers with bytes of its own, not with HTTP as it should be. */
const api = startBeforeAll(async () => {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", (bytes) => {
      const head = bytes.toString("latin1");
      seen.push(head);
      misbehave(head.split(" ")[1] ?? "", socket);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/base`, stop: async () => void server.close() };
});

const ok = (headers: string, body: string) => `HTTP/1.1 200 OK\r\n${headers}Connection: close\r\n\r\n${body}`;

function misbehave(target: string, socket: Socket): unknown {
  const [name = ""] = target.split("/").slice(-1);
  switch (name) {
    case "hints":
      return socket.end(
        `HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n${ok("Content-Length: 2\r\n", "ok")}`,
      );
    case "unasked-304":
      return socket.end('HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nConnection: close\r\n\r\n');
    case "trailers":
      return socket.end(
        ok(
          "Transfer-Encoding: chunked\r\nTrailer: X-Call-Id\r\n",
          "2\r\nok\r\n0\r\nX-Call-Id: 777777\r\n\r\n",
        ),
      );
    case "too-short":
      return socket.end(ok("Content-Length: 100\r\n", "part"));
    case "too-long":
      return socket.end(ok("Content-Length: 2\r\n", `ok${ok("Content-Length: 6\r\n", "forged")}`));
    case "both-lengths":
      return socket.end(ok("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n"));
    case "two-lengths":
      return socket.end(ok("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"));
    case "endless":
      return pour(socket);
    case "headers":
      return socket.end(ok(`X-Large: ${"x".repeat(100_000)}\r\nContent-Length: 2\r\n`, "ok"));
    case "nonsense":
      return socket.end("\0\0\0 this is no HTTP\r\n\r\n");
    case "own":
      return socket.end(
        ok(
          "Payment-Response: forged\r\nX-Charged: false\r\nSet-Cookie: a=b\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 2\r\n",
          "ok",
        ),
      );
    default:
      return socket.end(ok("Content-Length: 2\r\n", "ok"));
  }
}

/** Sends an answer without an end, as fast as it is read. */
function pour(socket: Socket): void {
  socket.write("HTTP/1.1 200 OK\r\n\r\n");
  const more = () => {
    while (!socket.destroyed && socket.write("x".repeat(16_384)));
  };
  socket.on("drain", more);
  more();
}

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => `${config}
[[apis]]
name = "odd"
url = "${api.url}"
headers = { X-Api-Key = "the key" }
forward_headers = ["accept", "x_jobgate_payer", "x-forwarded-for", "connection", "te", "idempotency-key", "host", "x-hop"]
timeout_secs = 2
# Fewer than the purchases: each has to leave its place.
concurrency = 2
free = ["GET /free/{path...}"]
[[apis]]
name = "all"
url = "${api.url}"
forward_headers = "*"
free = ["GET /open/{path...}"]
[[jobs]]
route = "GET /all/{name}"
api = "all"
price_wei = "1000000000000000"
[[jobs]]
route = "GET /odd/{name}"
api = "odd"
price_wei = "1000000000000000"
max_result_bytes = ${MAX_RESULT_BYTES}
`,
  }),
);

/** Sends a request line and headers as they are. */
async function sendHead(target: string, headers: Readonly<Record<string, string>> = {}) {
  const lines = Object.entries({ host: "jobgate.test", connection: "close", ...headers });
  const head = [`GET ${target} HTTP/1.1`, ...lines.map(([name, value]) => `${name}: ${value}`), "", ""];
  return (await sendRaw(gateway.jobgate.x402Url, head.join("\r\n")))[0];
}

beforeEach(() => {
  seen.length = 0;
});

async function buy(name: string, more: Readonly<Record<string, string>> = {}) {
  const url = new URL(`/odd/${name}`, gateway.jobgate.x402Url);
  const offer = decodePaymentRequiredHeader((await fetch(url)).headers.get("payment-required") ?? "");
  const lifetime = offer.accepts[0]?.maxTimeoutSeconds ?? Number.NaN;
  const chainTime = await parts.chainTimeSecs();
  const validBefore = String(Math.max(chainTime, Math.floor(Date.now() / 1000)) + lifetime);
  const authorization = { validBefore };
  const { headers } = await signV2Payment({ account: accounts.payer, authorization, offer, option: 0 });
  const before = await parts.usdc.balanceOf(accounts.payTo.address);
  const sendWith = (others: Readonly<Record<string, string>>) =>
    fetch(url, { headers: { ...more, ...headers, ...others } });
  const send = async () => {
    const answer = await sendWith({});
    return { status: answer.status, headers: answer.headers, body: await answer.text(), sendWith };
  };
  const answer = await send();
  const again = await send();
  expect([again.status, again.body]).toEqual([answer.status, answer.body]);
  return { answer, charged: (await parts.usdc.balanceOf(accounts.payTo.address)) - before };
}

describe("An API that answers oddly", () => {
  it.each([
    ["hints", 200, "ok"],
    ["trailers", 200, "ok"],
    ["own", 200, "ok"],
    ["unasked-304", 304, undefined],
    ["too-short", 502, "api_broke_off"],
    ["both-lengths", 502, "api_broke_off"],
    ["two-lengths", 502, "api_broke_off"],
    ["endless", 502, "result_too_large"],
    ["headers", 502, "api_broke_off"],
    ["nonsense", 502, "api_broke_off"],
  ])("%s: %i, and only an answer of 200 is charged", async (name, status, text) => {
    const { answer, charged } = await buy(name);
    expect([answer.status, charged]).toEqual([status, status === 200 ? AMOUNT : 0n]);
    if (text !== undefined) expect(answer.body).toContain(text);
    const isCharged = status === 200 ? null : "false";
    expect(answer.headers.get("x-charged")).toBe(isCharged);
    expect(answer.headers.get("payment-response")).not.toBe("forged");
    expect([answer.headers.get("set-cookie"), answer.headers.get("link")?.includes("a.css")]).toEqual([
      null,
      false,
    ]);
    expect(answer.headers.get("x-call-id")).not.toBe("777777");
    // The resend reached nothing, and a GET whose connection broke was made again once.
    expect(seen.length).toBeLessThanOrEqual(2);
  });

  it("sends no buyer the rest of another answer", async () => {
    const first = await buy("too-long");
    expect([first.answer.status, first.answer.body.includes("forged")]).toEqual([first.answer.status, false]);
    const { answer } = await buy("plain");
    expect([answer.status, answer.body]).toEqual([200, "ok"]);
  });
});

describe("A request at the edge of a route", () => {
  it.each([
    ...["/odd/..", "/odd/%2e%2e", "/odd/%2E%2e/admin", "/odd/a%2Fb", "/odd/a%5cb", "/odd/a\\b", "/odd/a;b=c"],
    ...[
      "/odd//a",
      "//odd/a",
      "/odd/a/",
      "/odd/%c0%af",
      "/odd/%e0%80%af",
      "/odd/%00",
      "/odd/a%0d%0ab",
      "/Odd/a",
    ],
    ...[
      "/free/../admin",
      "/free/%2e%2e/admin",
      "/free/%2e%2e%2fadmin",
      "/free/a//b",
      "/free/a;b",
      "/free/a%5c..%5cb",
    ],
    ...[
      "/odd/a#b",
      "/odd/a?b=c#d",
      "/odd/a?#",
      "/free/a?b=c#d",
      "/open/a?b#",
      "/all/a?b=\tc",
      "/all/a?b=\u007f",
    ],
    ...["/base/odd/a", "http://127.0.0.1/odd/%2e%2e", "http://evil.test/free/../a", "/odd"],
  ])("reaches nothing: %s", async (target) => {
    const answer = await sendHead(target);
    expect([400, 404]).toContain(answer?.status);
    expect(seen).toEqual([]);
  });

  it.each([
    ["/free/a?b=%2e%2e/&c", "GET /base/free/a?b=%2e%2e/&c HTTP/1.1"],
    ["/free/%7Ea/b%20c", "GET /base/free/~a/b%20c HTTP/1.1"],
  ])("is forwarded in one form, with its query as it is: %s", async (target, line) => {
    await sendHead(target);
    expect(seen.map((head) => head.split("\r\n")[0])).toEqual([line]);
  });

  it.each(["/free/a", "/open/a"])(
    "brings the API none of the headers that others make: %s",
    async (target) => {
      const answer = await sendHead(target, {
        connection: "close, x-api-key, x-hop",
        "X-Api-Key": "mine",
        X_Api_Key: "mine",
        "X-Hop": "evil",
        "X-Jobgate-Payer": "0xevil",
        X_JOBGATE_PAYER: "0xevil",
        "X-Forwarded-For": "6.6.6.6",
        "X-Original-URL": "/evil",
        "X-Rewrite-URL": "/evil",
        "X-Method-Override": "EVIL",
        "Idempotency-Key": "1",
        Cookie: "evil=1",
        Authorization: "Bearer evil",
        "Proxy-Authorization": "evil",
        "Sign-In-With-X": "evil",
        "Callback-URL": "https://evil.test",
        TE: "trailers",
      });
      expect(answer?.status).toBe(200);
      const head = (seen[0] ?? "").toLowerCase();
      expect(head.includes("\r\nx-api-key: the key\r\n")).toBe(target === "/free/a");
      expect(head.match(/evil|mine|6\.6\.6\.6|x_|idempotency|\r\nte:|trailers|jobgate\.test/g)).toBeNull();
      expect(head).toContain("\r\nx-forwarded-for: 127.0.0.1\r\n");
    },
  );

  it("brings an API that wants all headers the others, to which the payment is not bound", async () => {
    const { answer } = await buy("../all/a", { "X-Odd": "yes", Accept: "text/plain", Cookie: "a=evil" });
    expect(answer.status).toBe(200);
    const head = (seen[0] ?? "").toLowerCase();
    expect([head.includes("\r\nx-odd: yes\r\n"), head.includes("\r\naccept: text/plain\r\n")]).toEqual([
      true,
      true,
    ]);
    expect(head.match(/evil|payment/g)).toBeNull();
    const other = await answer.sendWith({ "X-Odd": "no" });
    expect([other.status, await other.text()]).toEqual([200, "ok"]);
    expect((await answer.sendWith({ Accept: "text/html" })).status).toBe(409);
    expect(seen).toHaveLength(1);
  });
});
