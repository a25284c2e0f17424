import type { PaymentPayload } from "@x402/core/types";
import { describe, expect, it } from "vitest";
import { ExtensionEchoes } from "../../../src/x402/purchase/extension-echoes.ts";
import { METHODS } from "../payments.ts";

const KEY = { serviceId: 1n, jobIndex: 3 };

describe("The extensions of a payment", () => {
  let nowMs = 1_000_000;
  const declaring = (body: string) => ({
    bazaar: { info: { input: { method: "POST", body }, output: "text" }, schema: {} },
  });
  const echoesOf = (body: string) =>
    new ExtensionEchoes({ declared: () => declaring(body), methods: METHODS, clock: () => nowMs });
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

  it("May be those of an earlier configuration while its offers are open", () => {
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
