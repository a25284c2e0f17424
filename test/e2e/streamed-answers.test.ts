import { EventEmitter, once } from "node:events";
import { get, type IncomingMessage, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { eventually } from "../helpers/eventually.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const MAX_RESULT_BYTES = 100_000;
const PIECE = Buffer.alloc(65_536, "x");
/** More than all buffers between the API and a buyer who takes nothing. */
const MANY_PIECES = 480;
/** More than what is buffered for a buyer, and no more than what is kept. */
const SOME_PIECES = 120;
/** Time without another piece after which the API is held back. */
const QUIET_MS = 300;
/** Time in which a call would end that ended with its buyer. */
const LEFT_MS = 200;

/** Requests that the API got, with the pieces that it could write. */
const calls: { url: string; pieces: number; isOver: boolean }[] = [];
const goOn = new EventEmitter();

/** An API whose answers come in pieces. */
const api = startBeforeAll(() =>
  listenHttp({
    handler({ url = "" }, response) {
      const call = { url, pieces: 0, isOver: false };
      calls.push(call);
      response.once("close", () => {
        call.isOver = true;
      });
      void answer(url.split("/").at(-1) ?? "", response, call);
    },
  }),
);

async function answer(kind: string, response: ServerResponse, call: { pieces: number }): Promise<void> {
  const write = (piece: string | Buffer) => {
    call.pieces++;
    return response.write(piece);
  };
  response.setHeader("content-type", "text/event-stream");
  switch (kind) {
    case "refused":
      return void response.writeHead(401).end("who are you?");
    case "missing":
      return void response.writeHead(404).end("no such thing");
    case "none":
      return void response.writeHead(204).end();
    case "quick":
      return void response.end("data: all\n\n");
    case "large":
      for (let sent = 0; sent < MANY_PIECES && !response.destroyed; sent++)
        if (!write(PIECE)) await drained(response);
      return void response.end();
    case "some":
      for (let sent = 0; sent < SOME_PIECES; sent++) write(PIECE);
      return void response.end();
    case "silent":
      return;
    default:
      write("data: 1\n\n");
      await once(goOn, "go");
      if (kind === "broken") return void response.destroy();
      write("data: 2\n\n");
      response.end();
  }
}

async function drained(response: ServerResponse): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  await Promise.race([once(response, "drain", { signal }), once(response, "close", { signal })]);
  over.abort();
}

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => `${config}
[[apis]]
name = "model"
url = "${api.url}"
[[jobs]]
route = "GET /chat/{kind}"
api = "model"
price_wei = "1000000000000000"
charge = "before"
stream = true
max_result_bytes = ${MAX_RESULT_BYTES}
[[jobs]]
route = "GET /short/{kind}"
api = "model"
price_wei = "1000000000000000"
charge = "before"
stream = true
cancel = "with_client"
max_run_secs = 2
[[jobs]]
route = "GET /forgotten/{kind}"
api = "model"
price_wei = "1000000000000000"
charge = "before"
stream = true
store_answers = false
`,
  }),
);

/** Signs a payment for a route. */
async function pay(path: string) {
  const url = `${gateway.jobgate.x402Url}${path}`;
  const asked = await fetch(url);
  const offer = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
  const lifetime = offer.accepts[0]?.maxTimeoutSeconds ?? Number.NaN;
  const validBefore = String(Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000)) + lifetime);
  const { headers } = await signV2Payment({ account: accounts.payer, authorization: { validBefore }, offer });
  return { url, headers, again: () => fetch(url, { headers }) };
}

/** Buys a route. The answer has begun when this resolves. */
async function buy(path: string) {
  const { url, headers, again } = await pay(path);
  const leaving = new AbortController();
  const answer = await fetch(url, { headers, signal: leaving.signal });
  const id = answer.headers.get("x-call-id");
  const token = answer.headers.get("x-access-token");
  return { answer, path, headers, again, state: () => stateOf(id, token), leave: () => leaving.abort() };
}

/** Buys a route, and takes nothing of its answer after the head. */
async function buyAndStall(path: string) {
  const { url, headers, again } = await pay(path);
  // Those that fetch adds, to which the payment is bound.
  const same = { accept: "*/*", "accept-language": "*", ...headers };
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { headers: same, agent: false }, resolve).once("error", reject);
  });
  const { "x-call-id": id, "x-access-token": token } = answer.headers;
  return { answer, again, state: () => stateOf(id, token) };
}

async function stateOf(id: unknown, token: unknown) {
  const url = `${gateway.jobgate.x402Url}/x402/calls/${id}`;
  return (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).json();
}

beforeEach(() => {
  calls.length = 0;
});

describe("A streamed answer of an API", () => {
  it("reaches its buyer while the API writes it, and a resend gets it without another call", async () => {
    const { answer, again, state } = await buy("/chat/model");
    const reader = answer.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("data: 1\n\n");
    expect(await state()).toMatchObject({ state: "running" });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("text/event-stream");
    expect(answer.headers.get("payment-response")).toMatch(/^[A-Za-z0-9+/=]{40,}$/);
    goOn.emit("go");
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("data: 2\n\n");
    expect((await reader?.read())?.done).toBe(true);
    // A buyer who has the whole answer can have it again at once.
    expect(await state()).toMatchObject({ state: "succeeded" });
    const resent = await again();
    expect(await resent.text()).toBe("data: 1\n\ndata: 2\n\n");
    expect(resent.headers.get("x-result-truncated")).toBeNull();
    expect(calls).toHaveLength(1);
  });

  it.each([
    ["quick", 200, "data: all\n\n"],
    ["missing", 404, "no such thing"],
    ["none", 204, ""],
  ])("may be over at once: %s", async (kind, status, body) => {
    const { answer, again } = await buy(`/chat/${kind}`);
    expect([answer.status, await answer.text()]).toEqual([status, body]);
    const resent = await again();
    expect([resent.status, await resent.text()]).toEqual([status, body]);
    expect(calls).toHaveLength(1);
  });

  it("waits for a slow buyer, who gets all of it, and a resend the part that is kept", async () => {
    const { answer, again } = await buy("/chat/large");
    // The API writes until every buffer is full, and no further.
    const written = await vi.waitUntil(
      async () => {
        const before = calls[0]?.pieces;
        await sleep(QUIET_MS);
        return before === calls[0]?.pieces && before;
      },
      { timeout: 20_000 },
    );
    expect(written).toBeLessThan(MANY_PIECES / 2);
    let size = 0;
    for await (const bytes of answer.body ?? []) size += bytes.byteLength;
    expect(size).toBe(MANY_PIECES * PIECE.byteLength);
    expect(answer.headers.get("x-result-truncated")).toBeNull();
    const resent = await again();
    expect(resent.headers.get("x-result-truncated")).toBe("true");
    expect((await resent.arrayBuffer()).byteLength).toBe(MAX_RESULT_BYTES);
    expect(calls).toHaveLength(1);
  });

  it("that breaks off breaks the buyer's connection, is a failed job, and is not requested again", async () => {
    const { answer, again, state } = await buy("/chat/broken");
    const whole = answer.text();
    goOn.emit("go");
    await expect(whole).rejects.toThrow("terminated");
    await eventually(async () => expect(await state()).toMatchObject({ state: "failed", status: 502 }));
    const resent = await again();
    expect([resent.status, await resent.json()]).toMatchObject([
      502,
      { code: "api_broke_off", charged: true },
    ]);
    expect(calls).toHaveLength(1);
  });

  it("goes on when its buyer leaves, who gets it by sending the request again", async () => {
    const { again, leave, state } = await buy("/chat/model");
    leave();
    await sleep(LEFT_MS);
    expect(calls).toMatchObject([{ isOver: false }]);
    goOn.emit("go");
    await eventually(async () => expect(await state()).toMatchObject({ state: "succeeded" }));
    expect(await (await again()).text()).toBe("data: 1\n\ndata: 2\n\n");
    expect(calls).toHaveLength(1);
  });

  it("ends with its buyer where the seller says so, and what had come is kept", async () => {
    const { again, leave, state } = await buy("/short/model");
    leave();
    await eventually(() => expect(calls).toMatchObject([{ isOver: true }]));
    await eventually(async () => expect(await state()).toMatchObject({ state: "succeeded" }));
    const resent = await again();
    expect(resent.headers.get("x-result-truncated")).toBe("true");
    expect(await resent.text()).toBe("data: 1\n\n");
  });

  it("ends after max_run_secs, as an answer that breaks off", async () => {
    const { answer, again } = await buy("/short/model");
    await expect(answer.text()).rejects.toThrow("terminated");
    const resent = await again();
    expect([resent.status, await resent.json()]).toMatchObject([504, { code: "api_timeout", charged: true }]);
  });

  it("ends after max_run_secs also for a buyer who takes nothing, and is kept", async () => {
    const { answer, again, state } = await buyAndStall("/short/some");
    await eventually(async () => expect(await state()).toMatchObject({ state: "succeeded" }));
    expect(calls).toMatchObject([{ isOver: true }]);
    await expect(buffer(answer)).rejects.toThrow("aborted");
    const resent = await again();
    expect(resent.headers.get("x-result-truncated")).toBeNull();
    expect((await resent.arrayBuffer()).byteLength).toBe(SOME_PIECES * PIECE.byteLength);
  });

  it("that breaks off resets the connection of a buyer of HTTP/1.0, for whom a closed one is its end", async () => {
    const { url, headers } = await pay("/chat/broken");
    const { port, pathname } = new URL(url);
    const buyer = connect(Number(port), "127.0.0.1");
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    buyer.write(`GET ${pathname} HTTP/1.0\r\n${lines.join("")}\r\n`);
    await once(buyer, "data");
    goOn.emit("go");
    const [error] = await once(buyer.resume(), "error");
    expect(error).toMatchObject({ code: "ECONNRESET" });
  });

  it("is given to one of two requests with its payment while it arrives, and to the other at its end", async () => {
    const { path, headers, answer } = await buy("/chat/model");
    const url = `${gateway.jobgate.x402Url}${path}`;
    const second = fetch(url, { headers });
    const stolen = await fetch(`${gateway.jobgate.x402Url}/chat/quick`, { headers });
    expect([stolen.status, await stolen.json()]).toMatchObject([409, { code: "payment_replay" }]);
    goOn.emit("go");
    expect(await answer.text()).toBe("data: 1\n\ndata: 2\n\n");
    expect(await (await second).text()).toBe("data: 1\n\ndata: 2\n\n");
    expect(calls).toHaveLength(1);
  });

  it("ends whole if jobgate is stopped before its end", async () => {
    const { path, headers, answer } = await buy("/chat/model");
    const restarted = gateway.restart();
    setTimeout(() => goOn.emit("go"), LEFT_MS);
    expect(await answer.text()).toBe("data: 1\n\ndata: 2\n\n");
    await restarted;
    const resent = await fetch(`${gateway.jobgate.x402Url}${path}`, { headers });
    expect(await resent.text()).toBe("data: 1\n\ndata: 2\n\n");
    expect(calls).toHaveLength(1);
  });

  it("is not given to its buyer where the API refuses the gateway", async () => {
    const { answer } = await buy("/chat/refused");
    expect([answer.status, await answer.json()]).toMatchObject([502, { code: "api_refused", charged: true }]);
  });

  it("is forgotten once its buyer has it, where the seller says so", async () => {
    const { answer, again } = await buy("/forgotten/quick");
    expect(await answer.text()).toBe("data: all\n\n");
    await eventually(async () =>
      expect(await (await again()).json()).toMatchObject({ code: "result_not_kept" }),
    );
  });
});
