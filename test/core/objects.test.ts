import { expect, test } from "vitest";
import { joined } from "../../src/core/objects.ts";

test("One object has the fields of several", () => {
  expect(joined("source", [{ prices: 1 }, {}, { rates: 2 }])).toEqual({ prices: 1, rates: 2 });
});

test("A field of two objects is refused by its name, even where both agree", () => {
  expect(() => joined("source", [{ rates: 2 }, { rates: 2 }])).toThrow(
    "two parts of this build have the source rates; expected one",
  );
});
