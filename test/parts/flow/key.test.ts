import { expect, test } from "vitest";
import { keyOf } from "../../../src/parts/flow/key.ts";

const SOURCE = { in: "json", tokens: ["customer"] } as const;
const NO_HEADERS = { headerValues: () => [] };
const keyIn = (customer: unknown) => keyOf(SOURCE, NO_HEADERS, Buffer.from(JSON.stringify({ customer })));

test("A long key is cut, and still differs from other long keys", () => {
  const [one, other] = [keyIn("a".repeat(300)), keyIn(`${"a".repeat(299)}b`)];
  expect(one).toMatch(/^a{100}… [0-9a-f]{64}$/);
  expect(other).not.toBe(one);
});

test("A long key is text wherever it is cut, because stores keep nothing else", () => {
  for (const before of [99, 100]) {
    const key = keyIn(`${"x".repeat(before)}${"😀".repeat(60)}`) ?? "";
    expect(Buffer.from(key).toString()).toBe(key);
  }
});

test("Half a character and a NUL of a sender are replaced", () => {
  expect(keyOf(SOURCE, NO_HEADERS, Buffer.from('{"customer":"a\\ud83d\\u0000"}'))).toBe("a\uFFFD\uFFFD");
});
