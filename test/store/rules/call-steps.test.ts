import { expect, test } from "vitest";
import { shortened, withStep } from "../../../src/store/rules/call-steps.ts";

test("A text that is too long is cut, and never inside a character", () => {
  expect(shortened("abc", 3)).toBe("abc");
  expect(shortened("abcd", 3)).toBe("abc");
  expect(shortened("ab😀", 3)).toBe("ab");
  expect(shortened("a😀b", 3)).toBe("a😀");
});

test("The reason of a step is cut", () => {
  const step = { kind: "revival", deadAt: 1, reason: `${"x".repeat(199)}😀`, at: 2 } as const;
  expect(withStep(null, step)).toEqual([{ ...step, reason: "x".repeat(199) }]);
});
