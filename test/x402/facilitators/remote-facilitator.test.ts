import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { json } from "node:stream/consumers";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { afterEach, describe, expect, it } from "vitest";
import type { FacilitatorRequest } from "../../../src/x402/facilitators/facilitator.ts";
import { RemoteFacilitator } from "../../../src/x402/facilitators/remote-facilitator.ts";
import { type HttpListener, listenHttp } from "../../helpers/http-listener.ts";
import { METHODS } from "../payments.ts";

const REQUEST: FacilitatorRequest = {
  payload: { x402Version: 2, payload: { signature: "0x" } } as unknown as PaymentPayload,
  requirements: { scheme: "exact", amount: "1" } as unknown as PaymentRequirements,
};
const TRANSACTION = `0x${"12".repeat(32)}`;
const PAYER = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

let listeners: HttpListener[] = [];
afterEach(async () => {
  await Promise.all(listeners.map((listener) => listener.stop()));
  listeners = [];
});

/** Starts a server that returns these answers in turn, and then repeats the last. */
async function serve(...answers: Answer[]) {
  const received: { path: string | undefined; body: unknown }[] = [];
  /** Client's ends of the connections. */
  const ports = new Set<number | undefined>();
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    ports.add(request.socket.remotePort);
    received.push({ path: request.url, body: await json(request) });
    answers[Math.min(received.length, answers.length) - 1]?.(response, request);
  };
  const listener = await listenHttp({ handler: (request, response) => void handle(request, response) });
  listeners.push(listener);
  return {
    received,
    ports,
    url: listener.url,
    facilitator: new RemoteFacilitator({
      name: "facilitator",
      url: listener.url,
      timeoutMs: answers.some((given) => STALLING.has(given)) ? 200 : 30_000,
      versions: METHODS.versions,
    }),
  };
}

const answer =
  (status: number, body: unknown, headers: Record<string, string> = {}): Answer =>
  (response) => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(text);
  };
const nothing: Answer = () => undefined;
/** Resets the connection instead of answering, as happens to a kept-alive socket of a server that restarted. */
const cut: Answer = (_response, request) => void (request.socket as Socket).resetAndDestroy();
const slowBody: Answer = (response) => {
  response.writeHead(200, { "content-type": "application/json" });
  response.write('{"isValid":true,"success":true,');
};
const half: Answer = (response) => {
  response.writeHead(200, { "content-length": "100" });
  response.write('{"isValid":tr', () => response.socket?.destroy());
};
/** Answers that never end, so that only the time-out ends the request. */
const STALLING = new Set([nothing, slowBody]);

const VALID = { isValid: true, payer: PAYER };
const SETTLED = { success: true, transaction: TRANSACTION, network: "eip155:84532", payer: PAYER };
const HUGE = JSON.stringify({ ...VALID, ...SETTLED, padding: "x".repeat(70_000) });

/** Answers that hold no verdict for either request. */
const NO_VERDICT: [string, Answer][] = [
  ["HTML", answer(200, "<html>502</html>", { "content-type": "text/html" })],
  ["truncated JSON", answer(200, '{"isValid":true,"success":true')],
  ["a body that is cut off", half],
  ["500 without a body", answer(500, "")],
  ["500 with a body", answer(500, { error: "boom" })],
  ["a slow body", slowBody],
  ["no answer", nothing],
  ["a huge body", answer(200, HUGE)],
  ["an empty object", answer(200, {})],
  ["null", answer(200, "null")],
  ["a list", answer(200, [VALID, SETTLED])],
  [
    "yes as text",
    answer(200, { isValid: "true", success: "true", transaction: TRANSACTION, network: "eip155:84532" }),
  ],
  [
    "yes as a number",
    answer(200, { isValid: 1, success: 1, transaction: TRANSACTION, network: "eip155:84532" }),
  ],
  ["yes with status 500", answer(500, { ...VALID, ...SETTLED })],
  ["yes with status 404", answer(404, { ...VALID, ...SETTLED })],
  ["wrong types beside the yes", answer(200, { ...VALID, ...SETTLED, payer: 7 })],
];

describe("verify", () => {
  it("sends the payment, the requirements and their version, and returns the payer", async () => {
    const { facilitator, received } = await serve(answer(200, VALID));
    expect(await facilitator.verify(REQUEST)).toEqual({ kind: "valid", payer: PAYER });
    const body = {
      x402Version: 2,
      paymentPayload: REQUEST.payload,
      paymentRequirements: REQUEST.requirements,
    };
    expect(received).toEqual([{ path: "/verify", body }]);
  });

  it("accepts a no with status 400, 402 or 412 too, and without a reason", async () => {
    for (const status of [200, 400, 402, 412]) {
      const { facilitator } = await serve(
        answer(status, { isValid: false, invalidReason: "insufficient_funds" }),
      );
      expect(await facilitator.verify(REQUEST)).toEqual({ kind: "invalid", reason: "insufficient_funds" });
    }
    const { facilitator } = await serve(answer(200, { isValid: false, invalidReason: null }));
    expect(await facilitator.verify(REQUEST)).toMatchObject({ kind: "invalid" });
  });

  it("treats an empty payer as none, as languages without undefined send it", async () => {
    const { facilitator } = await serve(
      answer(200, { ...VALID, payer: "" }),
      answer(200, { ...SETTLED, payer: "" }),
    );
    expect(await facilitator.verify(REQUEST)).toEqual({ kind: "valid" });
    expect(await facilitator.settle(REQUEST)).toEqual({
      kind: "success",
      transaction: TRANSACTION,
      network: "eip155:84532",
    });
  });

  it("shortens a reason that is too long for a header", async () => {
    const { facilitator } = await serve(answer(200, { isValid: false, invalidReason: "é".repeat(20_000) }));
    expect(await facilitator.verify(REQUEST)).toEqual({ kind: "invalid", reason: "é".repeat(200) });
  });

  it.each([
    ...NO_VERDICT,
    ["a no with status 500", answer(500, { isValid: false, invalidReason: "x" })] as const,
  ])("%s is not a verdict: facilitator_unavailable", async (_name, given) => {
    const { facilitator } = await serve(given);
    await expect(facilitator.verify(REQUEST)).rejects.toMatchObject({
      code: "facilitator_unavailable",
      headers: { "retry-after": "2" },
    });
  });

  it("is called once more after a kept-alive socket went stale, and only once", async () => {
    const once = await serve(answer(200, VALID), cut, answer(200, VALID));
    await once.facilitator.verify(REQUEST);
    expect(await once.facilitator.verify(REQUEST)).toMatchObject({ kind: "valid" });
    expect(once.received).toHaveLength(3);

    const always = await serve(cut);
    await expect(always.facilitator.verify(REQUEST)).rejects.toMatchObject({
      code: "facilitator_unavailable",
    });
    expect(always.received).toHaveLength(2);
  });

  it("is not called again after a time-out", async () => {
    const { facilitator, received } = await serve(nothing);
    await expect(facilitator.verify(REQUEST)).rejects.toMatchObject({ code: "facilitator_unavailable" });
    // A busy machine may reach the time-out before the request is read.
    expect(received.length).toBeLessThanOrEqual(1);
  });

  it("of a facilitator that is down is facilitator_unavailable", async () => {
    const { facilitator } = await serve(nothing);
    await Promise.all(listeners.map((listener) => listener.stop()));
    await expect(facilitator.verify(REQUEST)).rejects.toMatchObject({ code: "facilitator_unavailable" });
  });
});

describe("settle", () => {
  it("returns the network as CAIP-2, whichever version of x402 the answer names it in", async () => {
    const { facilitator } = await serve(
      answer(200, { ...SETTLED, network: "other-84532" }),
      answer(200, { ...SETTLED, network: "eip155:84532" }),
      answer(200, { ...SETTLED, network: "nowhere" }),
    );
    for (const network of ["eip155:84532", "eip155:84532", "nowhere"])
      expect(await facilitator.settle(REQUEST)).toMatchObject({ kind: "success", network });
  });

  it("returns the transaction of a success", async () => {
    const { facilitator, received } = await serve(answer(200, SETTLED));
    const { success: _, ...settled } = SETTLED;
    expect(await facilitator.settle(REQUEST)).toEqual({ kind: "success", ...settled });
    expect(received.map(({ path }) => path)).toEqual(["/settle"]);
  });

  it("returns a no with its reason and its transaction", async () => {
    const no = {
      success: false,
      errorReason: "settlement_pending",
      transaction: TRANSACTION,
      network: "eip155:84532",
    };
    for (const status of [200, 402, 500]) {
      const { facilitator } = await serve(answer(status, no));
      expect(await facilitator.settle(REQUEST)).toEqual({
        kind: "refused",
        reason: "settlement_pending",
        transaction: TRANSACTION,
      });
    }
  });

  it.each([
    ...NO_VERDICT,
    ["a success without a transaction", answer(200, { ...SETTLED, transaction: "" })] as const,
    ["a success without a network", answer(200, { success: true, transaction: TRANSACTION })] as const,
    [
      "a success that was told before",
      answer(200, { ...SETTLED, success: false, errorReason: "duplicate_settlement" }),
    ] as const,
  ])("%s is not an answer, and the facilitator is called only once", async (_name, given) => {
    const { facilitator, received } = await serve(given);
    expect(await facilitator.settle(REQUEST)).toMatchObject({
      kind: "no_answer",
      reason: expect.any(String),
    });
    if (!STALLING.has(given)) expect(received).toHaveLength(1);
    else expect(received.length).toBeLessThanOrEqual(1);
  });

  it("is never called again after a kept-alive socket went stale", async () => {
    const { facilitator, received } = await serve(answer(200, VALID), cut, answer(200, SETTLED));
    await facilitator.verify(REQUEST);
    expect(await facilitator.settle(REQUEST)).toMatchObject({ kind: "no_answer" });
    expect(received.map(({ path }) => path)).toEqual(["/verify", "/settle"]);
  });

  it("of a facilitator that is down is not an answer", async () => {
    const { facilitator } = await serve(nothing);
    await Promise.all(listeners.map((listener) => listener.stop()));
    expect(await facilitator.settle(REQUEST)).toMatchObject({ kind: "no_answer" });
  });
});

it("A payment is verified and settled over one connection", async () => {
  const { facilitator, ports } = await serve(
    answer(200, { isValid: true }),
    answer(200, { success: true, transaction: TRANSACTION, network: "eip155:84532" }),
  );
  await facilitator.verify(REQUEST);
  expect(await facilitator.settle(REQUEST)).toMatchObject({ kind: "success" });
  expect(ports.size).toBe(1);
});

describe("a redirect", () => {
  it.each([301, 302, 303, 307, 308])(
    "with status %i is not followed: no other host gets the payment",
    async (status) => {
      const other = await serve(answer(200, { ...VALID, ...SETTLED }));
      const { facilitator, received } = await serve(answer(status, "", { location: `${other.url}/settle` }));
      await expect(facilitator.verify(REQUEST)).rejects.toMatchObject({ code: "facilitator_unavailable" });
      expect(await facilitator.settle(REQUEST)).toMatchObject({ kind: "no_answer" });
      expect(received.filter(({ path }) => path === "/settle")).toHaveLength(1);
      expect(other.received).toEqual([]);
    },
  );
});
