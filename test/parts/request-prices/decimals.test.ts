import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { codePoints, startedUnits, TOO_MANY } from "../../../src/parts/request-prices/decimals.ts";

describe("Started units", () => {
  it.each([
    ["0", 0n],
    ["0.0e5", 0n],
    ["1", 1n],
    ["1.0", 1n],
    ["1.000000000000000000000001", 2n],
    ["9007199254740993", 9_007_199_254_740_993n],
    ["1e-400", 1n],
    ["0.01e2", 1n],
    ["0.011e2", 2n],
    ["12e3", 12_000n],
    ["1e400", TOO_MANY],
    ["1e99999999999999999999", TOO_MANY],
    ["1e-99999999999999999999", 1n],
    ["-0", undefined],
    ["-1", undefined],
    ["01", undefined],
    ["1.", undefined],
    [" 1", undefined],
    ["0x10", undefined],
    ["Infinity", undefined],
    ["", undefined],
  ])("Of %j are %s", (text, units) => {
    expect(startedUnits(text)).toBe(units);
  });

  it("Are the exact ceiling of every decimal, however it is written", () => {
    const digits = fc.string({ unit: fc.constantFrom(..."0123456789"), maxLength: 30 });
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 10n ** 25n }),
        digits,
        fc.integer({ min: -20, max: 20 }),
        (whole, fraction, shift) => {
          const places = fraction.length + 20;
          const scaled = BigInt(`${whole}${fraction}`) * 10n ** BigInt(20 + shift);
          const exact = (scaled + 10n ** BigInt(places) - 1n) / 10n ** BigInt(places);
          const text = `${whole}${fraction === "" ? "" : `.${fraction}`}e${shift}`;
          expect(startedUnits(text)).toBe(exact);
        },
      ),
    );
  });
});

it("Code points are counted as text iterates", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("a", "é", "🎈", "\ud83c", "\udf88", "\0") }), (text) => {
      expect(codePoints(text)).toBe([...text].length);
    }),
  );
});
