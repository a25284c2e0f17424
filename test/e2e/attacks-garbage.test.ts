import type { PaymentPayload } from "@x402/core/types";
import { beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { base64Json, requestOffer, signV1Payment } from "../helpers/clients.ts";
import { type RpcAnswer, sendText } from "../helpers/mcp.ts";
import { readChallenges } from "../helpers/mpp.ts";
import { type RawAnswer, rawRequest } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { ALL_PROTOCOLS, type Payment, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "no rpc_url" }));
let payment: Payment;
beforeAll(async () => {
  payment = await gateway.sign();
});

const HEADERS = ["PAYMENT-SIGNATURE", "X-PAYMENT"] as const;
/** JSON of good credentials, by the path of their protocol. */
const credentials: Record<string, string> = {};
beforeAll(async () => {
  for (const [path, protocol] of [
    ["/x402/jobs/1/0", "evm"],
    ["/mpp/jobs/1/0", "blueprintevm"],
  ] as const) {
    const { headers } = await gateway.at(protocol).sign();
    credentials[path] = Buffer.from(
      headers.authorization?.slice("Payment ".length) ?? "",
      "base64url",
    ).toString();
  }
});
const base64 = (text: string) => Buffer.from(text).toString("base64");
const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;

/** The good payment as JSON text, with one part of its text replaced. */
function edited(from: string, to: string): string {
  const json = JSON.stringify(payment.payload);
  if (!json.includes(from)) throw new Error(`the payment holds no ${from}`);
  return base64(json.replace(from, to));
}

const GARBAGE: [string, () => string][] = [
  ["10,000-deep JSON", () => base64(nested(10_000))],
  [
    "10,000-deep JSON in a field that nobody reads",
    () => edited('{"x402', `{"extensions":{"a":${nested(10_000)}},"x402`),
  ],
  ["10,000-deep JSON in the offer's extra", () => edited('"extra":{', `"extra":{"a":${nested(9_000)},`)],
  ["not base64", () => "%%% this is not base64 %%%"],
  ["base64 of the wrong alphabet", () => "_-_-_-"],
  ["empty", () => ""],
  ["not JSON", () => base64("not json")],
  ["truncated JSON", () => base64(JSON.stringify(payment.payload).slice(0, -10))],
  ["not UTF-8", () => Buffer.from([0x7b, 0xff, 0xfe, 0x7d]).toString("base64")],
  ["null", () => base64("null")],
  ["a number", () => base64("2")],
  ["a string", () => base64('"payment"')],
  ["an array", () => base64("[]")],
  ["an empty object", () => base64("{}")],
  ["another version", () => edited('"x402Version":2', '"x402Version":3')],
  ["a version as text", () => edited('"x402Version":2', '"x402Version":"2"')],
  [
    "wrong types: a number for the amount that was signed",
    () => edited(`"value":"${AMOUNT}"`, `"value":${AMOUNT}`),
  ],
  ["wrong types: a number that no double holds", () => edited(`"value":"${AMOUNT}"`, '"value":1e400')],
  ["wrong types: an object for the nonce", () => edited('"nonce":"', '"nonce":{},"x":"')],
  ["wrong types: an array for the payer", () => edited('"from":"', '"from":[],"x":"')],
  ["wrong types: a list for the offer", () => edited('"accepted":{', '"accepted":[],"x":{')],
  ["wrong types: null for the payload", () => edited('"payload":{', '"payload":null,"x":{')],
  ["an amount in hexadecimal", () => edited(`"value":"${AMOUNT}"`, `"value":"0x${AMOUNT.toString(16)}"`)],
  ["an amount with a leading zero", () => edited(`"value":"${AMOUNT}"`, `"value":"0${AMOUNT}"`)],
  ["a negative amount", () => edited(`"value":"${AMOUNT}"`, `"value":"-${AMOUNT}"`)],
  ["an amount of 5,000 digits", () => edited(`"value":"${AMOUNT}"`, `"value":"${"9".repeat(5_000)}"`)],
  ["a nonce too short", () => edited('"nonce":"0x', '"nonce":"0x00","x":"0x')],
  ["prototype keys in place of the payload", () => edited('"payload":{', '"__proto__":{')],
  [
    "prototype keys inside the authorization",
    () => edited('"authorization":{', '"authorization":{"__proto__":{"to":"0x"},"x":1,'),
  ],
  [
    "constructor keys inside the payload",
    () => edited('"payload":{', '"payload":{"constructor":{"prototype":{"polluted":1}},'),
  ],
  ["both kinds of payload at once", () => edited('"payload":{', '"payload":{"permit2Authorization":{},')],
];

/** Inputs that no place accepts as a payment. The same code finds mistakes within a payment in each place. */
const UNREADABLE = GARBAGE.slice(0, 14);

describe("Garbage", () => {
  it.each(GARBAGE)("%s → 400, and the process is unharmed", async (_name, make) => {
    const expectChanges = await watchLedger(parts, gateway);
    for (const header of HEADERS) {
      const answer = await rawRequest(
        gateway.jobgate.x402Url,
        "POST /x402/jobs/1/0",
        { [header]: make() },
        "work",
      );
      expect([header, answer.status]).toEqual([header, 400]);
      expect(JSON.parse(answer.body)).toEqual({
        error: expect.any(String),
        code: "invalid_payment",
        charged: false,
        retryable: false,
      });
      expect(answer.headers["cache-control"]).toBe("no-store");
    }
    await expectChanges({});
  });

  /** Calls the tool with this JSON as the `_meta` of the call. */
  const callTool = async (meta: string) => {
    const call = `"name":"job-1-0","arguments":{"body":"work"},"_meta":${meta}`;
    const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{${call}}}`;
    return sendText(`${gateway.jobgate.x402Url}/mcp`, message);
  };

  const problem = (name: string) => `https://paymentauth.org/problems/${name}`;
  /** Expects 402 and a challenge to answer instead, unless the credential names a method that is not taken. */
  const isProblem = ({ status, headers, body }: RawAnswer) => {
    const answer = JSON.parse(body) as { readonly type: string };
    const refusal = { error: expect.any(String), charged: false, retryable: false, status };
    if (answer.type === problem("method-unsupported")) {
      expect(status).toBe(400);
      expect(answer).toMatchObject({ ...refusal, code: "invalid_payment" });
      return;
    }
    expect(status).toBe(402);
    const code = "malformed_credential";
    expect(answer).toMatchObject({ ...refusal, code, type: problem("malformed-credential") });
    const [challenge, ...more] = readChallenges(headers["www-authenticate"] ?? "");
    expect(challenge).toMatchObject({ realm: "jobgate.example", intent: "charge" });
    expect([more, answer]).toEqual([[], expect.objectContaining({ challenge_ids: [challenge?.id] })]);
  };
  /** Expects the same over JSON-RPC. */
  const isRpcProblem = ({ error }: RpcAnswer) => {
    expect(error).toMatchObject({ code: -32602, data: { charged: false, retryable: false } });
    if (error?.data?.code === "invalid_payment") {
      expect(error.message).toContain("only evm/charge is taken here");
      return;
    }
    expect(error?.data).toMatchObject({
      code: "malformed_credential",
      httpStatus: 402,
      challenges: [{ method: "evm", request: { amount: String(AMOUNT) } }],
      problem: { type: problem("malformed-credential"), status: 402 },
    });
  };

  it.each(UNREADABLE)("In _meta of a tool call, %s is refused", async (_name, make) => {
    const expectChanges = await watchLedger(parts, gateway);
    const byX402 = await callTool(JSON.stringify({ "x402/payment": make() }));
    expect(byX402.result?.structuredContent).toMatchObject({
      code: "invalid_payment",
      charged: false,
      retryable: false,
    });
    isRpcProblem(await callTool(JSON.stringify({ "org.paymentauth/credential": make() })));
    await expectChanges({});
  });

  const withCredential = (path: string, value: string) =>
    rawRequest(gateway.jobgate.x402Url, `POST ${path}`, { Authorization: value }, "work");

  it.each(UNREADABLE)("In Authorization: Payment, %s → 402 with a fresh challenge", async (_name, make) => {
    const expectChanges = await watchLedger(parts, gateway);
    const value = `Payment ${make().replaceAll("+", "-").replaceAll("/", "_")}`;
    for (const path of Object.keys(credentials)) isProblem(await withCredential(path, value));
    await expectChanges({});
  });

  it.each([
    ["another method", '"method":"', '"method":"tempo","x":"'],
    ["another intent", '"intent":"charge"', '"intent":"session"'],
    ["no challenge", '"challenge":{', '"x":{'],
    ["a list for the challenge", '"challenge":{', '"challenge":[],"x":{'],
    ["null for the payload", '"payload":{', '"payload":null,"x":{'],
    ["an empty payload", '"payload":{', '"payload":{},"x":{'],
    ["prototype keys in place of the payload", '"payload":{', '"__proto__":{'],
    ["a number for the ID", '"id":"', '"id":7,"x":"'],
    ["a request that is not base64url", '"request":"', '"request":"%%'],
    ["a request that is no JSON", '"request":"', '"request":"bm8"}, "x":{"y":"'],
    ["10,000-deep JSON", '"source":', `"deep":${nested(10_000)},"source":`],
    ["an object for the source", '"source":"', '"source":{},"x":"'],
  ])(
    "A credential with %s → 402 with a fresh challenge, or 400 for another method",
    async (_name, from, to) => {
      const expectChanges = await watchLedger(parts, gateway);
      for (const [path, json] of Object.entries(credentials)) {
        expect(json).toContain(from);
        isProblem(
          await withCredential(path, `Payment ${Buffer.from(json.replace(from, to)).toString("base64url")}`),
        );
        const answer = await callTool(`{"org.paymentauth/credential":${json.replace(from, to)}}`);
        // Nesting is bounded before anything is read.
        if (answer.error?.code !== -32600) isRpcProblem(answer);
      }
      await expectChanges({});
    },
  );

  it.each([
    ["an amount in hexadecimal", `"value":"${AMOUNT}"`, `"value":"0x${AMOUNT.toString(16)}"`],
    ["an amount with a leading zero", `"value":"${AMOUNT}"`, `"value":"0${AMOUNT}"`],
    ["a negative amount", `"value":"${AMOUNT}"`, `"value":"-${AMOUNT}"`],
    ["a number for the amount", `"value":"${AMOUNT}"`, `"value":${AMOUNT}`],
    ["a nonce too short", '"nonce":"0x', '"nonce":"0x00","x":"0x'],
    ["an object for the nonce", '"nonce":"', '"nonce":{},"x":"'],
    ["an array for the payer", '"from":"', '"from":[],"x":"'],
    ["prototype keys inside the authorization", '"from":"', '"__proto__":{"to":"0x"},"x":1,"from":"'],
    ["a signature that is not hex", '"signature":"0x', '"signature":"0xzz'],
  ])("A credential whose payment has %s → 402 with a fresh challenge", async (_name, from, to) => {
    const expectChanges = await watchLedger(parts, gateway);
    for (const [path, json] of Object.entries(credentials)) {
      // The payload of blueprintevm is base64.
      const [, inner] = /"x402_payload":"([^"]+)"/.exec(json) ?? [];
      const text = inner === undefined ? json : Buffer.from(inner, "base64url").toString();
      expect(text).toContain(from);
      const wrong = text.replace(from, to);
      const credential = inner === undefined ? wrong : json.replace(inner, base64(wrong));
      const encoded = Buffer.from(credential).toString("base64url");
      isProblem(await withCredential(path, `Payment ${encoded}`));
      isRpcProblem(await callTool(`{"org.paymentauth/credential":${credential}}`));
    }
    await expectChanges({});
  });

  it("1 MB header → 431, 1 MB in _meta is refused, and the process is unharmed", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    const x = "x".repeat(750_000);
    const large = { ...payment.payload, x };
    const inHeader = base64(JSON.stringify(large));
    const credential = `Payment ${Buffer.from(JSON.stringify({ x })).toString("base64url")}`;
    for (const [path, header, value] of [
      ...HEADERS.map((header) => ["/x402/jobs/1/0", header, inHeader] as const),
      ...Object.keys(credentials).map((path) => [path, "Authorization", credential] as const),
    ]) {
      const answer = await rawRequest(gateway.jobgate.x402Url, `POST ${path}`, { [header]: value }, "work");
      expect(answer.status).toBe(431);
      expect(JSON.parse(answer.body)).toMatchObject({ code: "headers_too_large", charged: false });
    }
    for (const value of [large, inHeader]) {
      const { result } = await callTool(JSON.stringify({ "x402/payment": value }));
      expect(result?.structuredContent).toMatchObject({ code: "invalid_payment", charged: false });
    }
    const [json = ""] = Object.values(credentials);
    const from = '"signature":"0x';
    isRpcProblem(await callTool(`{"org.paymentauth/credential":${json.replace(from, `${from}${x}`)}}`));
    await expectChanges({});
  });

  it("A repeated Authorization → 402 with a fresh challenge, payments of two protocols in _meta are refused, although each alone is valid", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    for (const [path, json] of Object.entries(credentials)) {
      const value = `Payment ${Buffer.from(json).toString("base64url")}`;
      const headers = { Authorization: value, authorization: value };
      isProblem(await rawRequest(gateway.jobgate.x402Url, `POST ${path}`, headers, "work"));
    }
    const both = {
      "x402/payment": payment.payload,
      "org.paymentauth/credential": JSON.parse(Object.values(credentials)[0] ?? ""),
    };
    const { error } = await callTool(JSON.stringify(both));
    expect(error?.data).toMatchObject({ code: "invalid_payment", charged: false });
    await expectChanges({});
  });

  it("A repeated header, or two headers that disagree → 400, although each alone is valid", async () => {
    const url = gateway.jobgate.x402Url;
    const { v1 } = await requestOffer(gateway.urlOf());
    const other = await signV1Payment({ offer: v1, account: accounts.payer });
    const expectChanges = await watchLedger(parts, gateway);
    const v2 = payment.headers["payment-signature"] ?? "";
    for (const headers of [
      { "PAYMENT-SIGNATURE": v2, "payment-signature": v2 },
      { "PAYMENT-SIGNATURE": v2, "X-PAYMENT": other.headers["x-payment"] ?? "" },
      { "PAYMENT-SIGNATURE": v2, "X-PAYMENT": v2 },
      { "X-PAYMENT": v2 },
      { "PAYMENT-SIGNATURE": other.headers["x-payment"] ?? "" },
    ]) {
      const answer = await rawRequest(url, "POST /x402/jobs/1/0", headers, "work");
      expect([answer.status, JSON.parse(answer.body).code]).toEqual([400, "invalid_payment"]);
    }
    await expectChanges({});
  });

  it("Prototype keys and unknown keys in a valid payment are ignored", async () => {
    const polluted = await gateway.sign();
    const json = JSON.stringify(polluted.payload).replace(
      '{"x402Version"',
      '{"__proto__":{"x402Version":1,"isAdmin":true},"constructor":{"prototype":{"a":1}},"x402Version"',
    );
    const expectChanges = await watchLedger(parts, gateway);
    const answer = await gateway.send(
      { headers: { "payment-signature": base64(json) } },
      { body: "polluted" },
    );
    expect(answer.status).toBe(202);
    await gateway.waitForJobs("polluted");
    await expectChanges(ONE_PAID_JOB);
  });

  it.each(ALL_PROTOCOLS)(
    "Authorizations that end in 2^256 - 1 → refused before verify (%s)",
    async (protocol) => {
      const { sign, send } = gateway.at(protocol);
      const forever = await sign({
        authorization: { validAfter: "0", validBefore: String(2n ** 256n - 1n) },
      });
      const expectChanges = await watchLedger(parts, gateway);
      expect(await send(forever, { body: "for ever" })).toMatchObject({
        status: 402,
        code: "payment_mismatch",
        charged: false,
      });
      await expectChanges({});
    },
  );

  it("The valid payment that the garbage was derived from still buys a job", async () => {
    const { x402Version: _, accepted: __, ...v2 } = payment.payload as PaymentPayload;
    const v1 = { x402Version: 1, scheme: "exact", network: "base-sepolia", payload: v2.payload };
    const expectChanges = await watchLedger(parts, gateway);
    const headers = { ...payment.headers, "x-payment": base64Json(v1) };
    expect(await gateway.send({ headers }, { body: "after all" })).toMatchObject({ status: 202 });
    await gateway.waitForJobs("after all");
    await expectChanges(ONE_PAID_JOB);
    expect(gateway.jobgate.logs.filter((line) => line.includes("failed unexpectedly"))).toEqual([]);
  });
});
