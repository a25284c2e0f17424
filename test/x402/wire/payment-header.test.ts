import { parsePaymentPayload } from "@x402/core/schemas";
import type { PaymentPayload } from "@x402/core/types";
import { beforeAll, describe, expect, it } from "vitest";
import { EIP3009_METHOD } from "../../../src/x402/methods/eip3009.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { readPayment, toSignedPayment } from "../../../src/x402/wire/payment-header.ts";
import { VERSION_2 } from "../../../src/x402/wire/version.ts";
import { accounts } from "../../helpers/accounts.ts";
import { base64Json } from "../../helpers/clients.ts";
import { AMOUNT, inOther, METHODS, OTHER_VERSION, read, requestWith, signedPayload } from "../payments.ts";

const V2 = "payment-signature";
const OTHER = "x-other";

let payload: PaymentPayload;
let other: PaymentPayload;
beforeAll(async () => {
  [payload, other] = await Promise.all([signedPayload(), signedPayload()]);
});

type Json = Record<string, unknown>;
const authorizationOf = (of: PaymentPayload) => of.payload.authorization as Json;
const withAuthorization = (changes: Json): PaymentPayload => ({
  ...payload,
  payload: { ...payload.payload, authorization: { ...authorizationOf(payload), ...changes } },
});
const refused = (lines: [string, string][]) => {
  try {
    readPayment(requestWith(lines), METHODS);
  } catch (error) {
    return (error as { code: string }).code;
  }
  return "accepted";
};

const resource = { url: "https://shop.example/x402/jobs/1/0", description: "A job", mimeType: "text/plain" };
const PROTO = '"__proto__":{"network":"eip155:1"}';
/** Changes of a payload, as JSON. */
const CHANGES: readonly [string, (payload: PaymentPayload) => string][] = [
  ["a resource", (of) => JSON.stringify({ ...of, resource })],
  ["a resource of null", (of) => JSON.stringify({ ...of, resource: null })],
  ["an empty URL", (of) => JSON.stringify({ ...of, resource: { ...resource, url: "" } })],
  ["tags of a resource", (of) => JSON.stringify({ ...of, resource: { ...resource, tags: ["a"], more: 1 } })],
  ["extensions", (of) => JSON.stringify({ ...of, extensions: { a: { b: 1 } } })],
  ["extensions of null", (of) => JSON.stringify({ ...of, extensions: null })],
  ["extensions in a list", (of) => JSON.stringify({ ...of, extensions: [] })],
  ["an unknown field", (of) => JSON.stringify({ ...of, more: 1 })],
  ["an unknown field of the offer", (of) => JSON.stringify({ ...of, accepted: { ...of.accepted, more: 1 } })],
  [
    "no extra",
    ({ accepted, ...of }) => JSON.stringify({ ...of, accepted: { ...accepted, extra: undefined } }),
  ],
  [
    "a network without a colon",
    (of) => JSON.stringify({ ...of, accepted: { ...of.accepted, network: "base" } }),
  ],
  ["an empty amount", (of) => JSON.stringify({ ...of, accepted: { ...of.accepted, amount: "" } })],
  ["an endless time-out", (of) => JSON.stringify(of).replace(/("maxTimeoutSeconds":)\d+/, "$11e999")],
  ["a prototype", (of) => JSON.stringify(of).replace('"payload":{', `"payload":{${PROTO},`)],
  ["a prototype of the offer", (of) => JSON.stringify(of).replace('"accepted":{', `"accepted":{${PROTO},`)],
  ["a prototype of the extra", (of) => JSON.stringify(of).replace('"extra":{', `"extra":{${PROTO},`)],
];

describe("Reading a payment", () => {
  it.each(CHANGES)("A payload with %s is what the schema of @x402/core makes of it", (_what, change) => {
    const text = change(payload);
    const { data } = parsePaymentPayload(JSON.parse(text));
    const header = Buffer.from(text).toString("base64");
    if (data === undefined) expect(refused([[V2, header]])).toBe("invalid_payment");
    else expect(readPayment(requestWith([[V2, header]]), METHODS)?.payload).toStrictEqual(data);
  });

  it("A refusal escapes control characters of the sender's names", () => {
    const strange = withAuthorization({ "\u001b[2J\u0007": 1 });
    const read = () => readPayment(requestWith([[V2, base64Json(strange)]]), METHODS);
    expect(read).toThrow(/\\u\{1b\}|\\u001b/);
    expect(read).not.toThrow(/\p{Cc}/u);
  });

  it("A request without a payment header has no payment", () => {
    expect(readPayment(requestWith([["x-other-response", base64Json(payload)]]), METHODS)).toBeUndefined();
  });

  it("Version 2 yields the exact signed values in lower case and the named offer", () => {
    const authorization = authorizationOf(payload);
    expect(read(payload)).toEqual({
      version: VERSION_2,
      scheme: "exact",
      network: "eip155:84532",
      accepted: payload.accepted,
      method: EIP3009_METHOD,
      from: accounts.payer.address.toLowerCase(),
      to: accounts.payTo.address.toLowerCase(),
      value: BigInt(AMOUNT),
      validAfter: BigInt(authorization.validAfter as string),
      validBefore: BigInt(authorization.validBefore as string),
      nonce: authorization.nonce,
      fingerprint: expect.stringMatching(/^[0-9a-f]{64}$/),
      payload,
    });
  });

  it("Another version yields the same, with its own fields of an offer", () => {
    const { accepted: _, payload: __, ...v2 } = read(payload);
    const other = inOther(payload);
    const named = { version: OTHER_VERSION, network: "other-84532" };
    expect(read(other, OTHER)).toEqual({ ...v2, ...named, payload: other });
  });

  it("Both versions at once are read as version 2 if they agree", () => {
    const payment = readPayment(
      requestWith([
        [OTHER, base64Json(inOther(payload))],
        [V2, base64Json(payload)],
      ]),
      METHODS,
    );
    expect(payment?.version).toBe(VERSION_2);
  });

  it("A payment's fingerprint does not depend on letter case, version or unsigned fields", () => {
    const upper = (text: unknown) => `0x${String(text).slice(2).toUpperCase()}`;
    const { from, to, nonce } = authorizationOf(payload);
    const shouting = withAuthorization({ from: upper(from), to: upper(to), nonce: upper(nonce) });
    const { fingerprint } = read(payload);
    expect(read(shouting).fingerprint).toBe(fingerprint);
    const signature = upper(payload.payload.signature);
    expect(read({ ...payload, payload: { ...payload.payload, signature } }).fingerprint).toBe(fingerprint);
    expect(read(inOther(payload), OTHER).fingerprint).toBe(fingerprint);
    const accepted = { ...payload.accepted, amount: "1" };
    expect(read({ ...payload, accepted, resource: { url: "http://other" } }).fingerprint).toBe(fingerprint);
  });

  it("Every signed field changes the fingerprint", () => {
    const changes = [
      { from: accounts.stranger.address },
      { to: accounts.stranger.address },
      { value: "1" },
      { validAfter: "1" },
      { validBefore: "2" },
      { nonce: `0x${"00".repeat(32)}` },
    ];
    const prints = [payload, other, ...changes.map(withAuthorization)].map((it) => read(it).fingerprint);
    expect(new Set(prints).size).toBe(prints.length);
  });
});

describe("Refusing with invalid_payment", () => {
  it("Both versions at once with different signed fields or networks", () => {
    expect(
      refused([
        [V2, base64Json(payload)],
        [OTHER, base64Json(inOther(other))],
      ]),
    ).toBe("invalid_payment");
    const elsewhere = { ...inOther(payload), network: "other-8453" };
    expect(
      refused([
        [V2, base64Json(payload)],
        [OTHER, base64Json(elsewhere)],
      ]),
    ).toBe("invalid_payment");
  });

  it("A header sent twice, even with the same value", () => {
    const v2 = base64Json(payload);
    const other = base64Json(inOther(payload));
    expect(
      refused([
        [V2, v2],
        [V2, v2],
      ]),
    ).toBe("invalid_payment");
    expect(
      refused([
        [OTHER, other],
        [OTHER, other],
      ]),
    ).toBe("invalid_payment");
    expect(refused([[V2, ""]])).toBe("invalid_payment");
  });

  it("A payload of the other header's version", () => {
    expect(refused([[OTHER, base64Json(payload)]])).toBe("invalid_payment");
    expect(refused([[V2, base64Json(inOther(payload))]])).toBe("invalid_payment");
  });

  it("A header with a payment of a version that this build lacks is no payment", () => {
    const methods = new Methods();
    expect(readPayment(requestWith([[OTHER, base64Json(inOther(payload))]]), methods)).toBeUndefined();
    expect(() => toSignedPayment(inOther(payload), "The payment", methods)).toThrow(
      "The payment is of x402 version 1: pay with version 2.",
    );
  });

  const text = (make: () => string): string => Buffer.from(make()).toString("base64");
  it.each<[string, () => string]>([
    ["Not base64", () => "{}"],
    ["Not JSON", () => text(() => "x")],
    ["10,000-deep JSON", () => text(() => "[".repeat(10_000) + "]".repeat(10_000))],
    [
      "10,000-deep JSON inside a payment",
      () =>
        text(() =>
          JSON.stringify(payload).replace(
            "{",
            `{"extensions":{"a":${"[".repeat(10_000)}${"]".repeat(10_000)}},`,
          ),
        ),
    ],
    [
      "A payload with both kinds at once",
      () => base64Json({ ...payload, payload: { ...payload.payload, permit2Authorization: {} } }),
    ],
    ["A payload with neither kind", () => base64Json({ ...payload, payload: {} })],
    [
      "A key that was not signed inside the authorization",
      () => base64Json(withAuthorization({ extra: "1" })),
    ],
    [
      "__proto__ inside the authorization",
      () =>
        text(() =>
          JSON.stringify(payload).replace(
            '"authorization":{',
            '"authorization":{"__proto__":{"value":"1"},"y":1,',
          ),
        ),
    ],
    [
      "constructor in the payload",
      () => base64Json({ ...payload, payload: { ...payload.payload, constructor: {} } }),
    ],
    ["A number for the value", () => base64Json(withAuthorization({ value: Number(AMOUNT) }))],
    ["A number for validBefore", () => base64Json(withAuthorization({ validBefore: 4_000_000_000 }))],
    ["A word for the value", () => base64Json(withAuthorization({ value: "all" }))],
    ["A value with a sign", () => base64Json(withAuthorization({ value: `+${AMOUNT}` }))],
    ["A value with a blank", () => base64Json(withAuthorization({ value: ` ${AMOUNT}` }))],
    ["A value with a leading zero", () => base64Json(withAuthorization({ value: `0${AMOUNT}` }))],
    ["A value in hexadecimal", () => base64Json(withAuthorization({ value: "0x31ce00" }))],
    ["A value of 79 digits", () => base64Json(withAuthorization({ value: "9".repeat(79) }))],
    ["An address that is too short", () => base64Json(withAuthorization({ to: "0x1234" }))],
    ["An address without 0x", () => base64Json(withAuthorization({ to: accounts.payTo.address.slice(2) }))],
    ["A nonce of 31 bytes", () => base64Json(withAuthorization({ nonce: `0x${"00".repeat(31)}` }))],
    [
      "A signature of 4097 bytes",
      () => base64Json({ ...payload, payload: { ...payload.payload, signature: `0x${"00".repeat(4097)}` } }),
    ],
    [
      "A signature that is not hex",
      () => base64Json({ ...payload, payload: { ...payload.payload, signature: `0x${"zz".repeat(65)}` } }),
    ],
    ["No offer", () => base64Json({ ...payload, accepted: undefined })],
    [
      "An offer with a number as its amount",
      () => base64Json({ ...payload, accepted: { ...payload.accepted, amount: 1 } }),
    ],
    ["Version 3", () => base64Json({ ...payload, x402Version: 3 })],
  ])("%s", (_name, make) => {
    expect(refused([[V2, make()]])).toBe("invalid_payment");
  });

  it("A payment cannot change prototypes", () => {
    const json = JSON.stringify(payload).replace(
      "{",
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},',
    );
    expect(read(JSON.parse(json)).value).toBe(BigInt(AMOUNT));
    expect(({} as Json).polluted).toBeUndefined();
  });
});
