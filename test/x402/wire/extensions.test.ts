import { decodePaymentResponseHeader } from "@x402/core/http";
import type { PaymentPayload } from "@x402/core/types";
import { describe, expect, it, test } from "vitest";
import type { CallState } from "../../../src/store/contract/call-lookup.ts";
import { AnswerExtensions, type ExtendsAnswers, ExtensionEchoes } from "../../../src/x402/wire/extensions.ts";
import { JOB, METHODS, offersOf } from "../payments.ts";

const CALL: CallState = {
  callId: 7,
  payment: { network: "eip155:84532", asset: "0x1", payer: "0x2", nonce: "0x3" },
  job: JOB,
  state: "succeeded",
  attempt: 1,
  enqueuedAt: 0,
};
const part = (name: string, ofCall?: object): ExtendsAnswers => ({
  ofOffers: async (offers) => ({ [name]: offers.length }),
  ofCall: async () => ofCall && { [name]: ofCall },
});

test("A 402 has the extensions of every part, and the same object as long as the only part gives the same", async () => {
  const offers = offersOf();
  const made = { a: 1 };
  const only = new AnswerExtensions([{ ...part("a"), ofOffers: async () => made }]);
  expect(await only.ofOffers(offers)).toBe(made);
  expect(await new AnswerExtensions([part("a"), part("b")]).ofOffers(offers)).toEqual({ a: 1, b: 1 });
  const none = new AnswerExtensions();
  expect(await none.ofOffers(offers)).toBe(await none.ofOffers(offers));
});

test("The settlement of a call has the extensions of the parts beside its own", async () => {
  const settlement = { success: true, transaction: "0x4", network: "eip155:84532", extensions: { own: 1 } };
  const extensions = new AnswerExtensions([part("a", { x: 1 }), part("b"), part("c", {})]);
  const settled = await extensions.settlementOf({ ...CALL, settlement: JSON.stringify(settlement) });
  expect(settled).toEqual({ ...settlement, extensions: { own: 1, a: { x: 1 }, c: {} } });
  const { "payment-response": header = "" } = await extensions.headersOf(CALL);
  expect(decodePaymentResponseHeader(header)).toMatchObject({
    ...{ success: true, transaction: "", payer: "0x2" },
    extensions: { a: { x: 1 }, c: {} },
  });
});

test("A call without an extension has no settlement and no header beside its payment's header", async () => {
  const extensions = new AnswerExtensions([part("a")]);
  expect(await extensions.settlementOf(CALL)).toBeUndefined();
  expect(await extensions.headersOf(CALL)).toEqual({});
});

const KEY = { serviceId: 1n, jobIndex: 3 };

describe("The extensions of a payment", () => {
  let nowMs = 1_000_000;
  const declaring = (body: string) => ({
    bazaar: { info: { input: { method: "POST", body }, output: "text" }, schema: {} },
  });
  const echoesOf = (body: string) =>
    new ExtensionEchoes({
      descriptions: { of: () => ({ extensions: declaring(body) }) },
      methods: METHODS,
      clock: () => nowMs,
    });
  const check = (echoes: ExtensionEchoes, extensions: object | undefined) => () =>
    echoes.check({ x402Version: 2, extensions } as unknown as PaymentPayload, KEY);
  const CHANGED = expect.objectContaining({
    code: "payment_mismatch",
    details: { reason: "extension_echo_mismatch", extension: "bazaar" },
  });

  it("May be left out or added to, but not changed", () => {
    const echoes = echoesOf("abc");
    const extensions = declaring("abc");
    const { info, ...bazaar } = extensions.bazaar;
    const added = { ...info, input: { ...info.input, more: 1 }, more: 1 };
    for (const echo of [
      undefined,
      {},
      extensions,
      { other: {} },
      { bazaar: { info: added } },
      { bazaar: {} },
    ]) {
      expect(check(echoes, echo)).not.toThrow();
    }
    for (const input of [{ ...info.input, body: "other" }, { ...info.input, method: "GET" }, null, "post"]) {
      expect(check(echoes, { ...extensions, bazaar: { ...bazaar, info: { ...info, input } } })).toThrow(
        CHANGED,
      );
    }
  });

  it("May come from an earlier configuration while its offers are open", () => {
    const [first, second, third] = [echoesOf("one"), echoesOf("two"), echoesOf("three")];
    second.replaces(first, 300);
    nowMs += 100_000;
    third.replaces(second, 300);
    const echoed = ["one", "two", "three"].map(declaring);
    for (const extensions of echoed) expect(check(third, extensions)).not.toThrow();
    nowMs += 200_000;
    expect(check(third, echoed[0])).toThrow(CHANGED);
    expect(check(third, echoed[1])).not.toThrow();
    nowMs += 100_000;
    expect(check(third, echoed[1])).toThrow(CHANGED);
  });
});
