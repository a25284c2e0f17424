import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isLinearizable, type Model, type Operation } from "./linearizable.ts";

type Register = Operation & ({ readonly write: number } | { readonly read: number });

/** Holds one number, 0 at first. */
const REGISTER: Model<number, Register> = {
  initial: 0,
  step(state, op) {
    if ("write" in op) return op.write;
    return op.read === state ? state : undefined;
  },
};
const write = (from: number, to: number, value: number) => ({ from, to, write: value });
const read = (from: number, to: number, value: number) => ({ from, to, read: value });
const check = (...history: Register[]) => isLinearizable(history, REGISTER);
const never = Number.POSITIVE_INFINITY;

describe("A history is linearizable", () => {
  it("When it is empty, or reads what was written before", () => {
    expect(check()).toBe(true);
    expect(check(write(0, 1, 7), read(2, 3, 7))).toBe(true);
  });

  it("When a read meets a write that goes on, before or after its effect", () => {
    expect(check(write(0, 9, 7), read(1, 2, 0), read(3, 4, 7))).toBe(true);
    expect(check(write(0, 9, 7), read(1, 5, 7), read(2, 6, 0))).toBe(true);
  });

  it("When writes at once are seen in either order", () => {
    for (const [first, second] of [
      [1, 2],
      [2, 1],
    ] as const)
      expect(check(write(0, 9, 1), write(0, 9, 2), read(10, 11, second), read(1, 8, first))).toBe(true);
  });

  it("When a write without an answer is seen late, or never", () => {
    expect(check(write(0, never, 7), read(1, 2, 0), read(3, 4, 0), read(5, 6, 7))).toBe(true);
    expect(check(write(0, never, 7), read(1, 2, 0))).toBe(true);
  });
});

describe("A history is not linearizable", () => {
  it("When a read is stale, or returns what was never written", () => {
    expect(check(write(0, 1, 7), read(2, 3, 0))).toBe(false);
    expect(check(read(0, 1, 7))).toBe(false);
  });

  it("When a read is of what is written later", () => {
    expect(check(read(0, 1, 7), write(2, 3, 7))).toBe(false);
    expect(check(read(0, 1, 7), write(2, never, 7))).toBe(false);
  });

  it("When reads see a value come and go", () => {
    expect(check(write(0, 9, 7), read(1, 2, 7), read(3, 4, 0))).toBe(false);
    expect(check(write(0, never, 7), read(1, 2, 7), read(3, 4, 0))).toBe(false);
  });

  it("When two clients see writes in opposite orders", () => {
    expect(check(write(0, 9, 1), write(0, 9, 2), read(1, 2, 1), read(3, 4, 2), read(5, 6, 1))).toBe(false);
  });
});

/** Operations one after the other, each stretched in both directions: there is at least this one order. */
const stretched = fc
  .array(
    fc.record({
      value: fc.integer({ min: 1, max: 3 }),
      isWrite: fc.boolean(),
      before: fc.nat(3),
      after: fc.nat(3),
      isLost: fc.boolean(),
    }),
    { maxLength: 9 },
  )
  .map((plans) => {
    let state = 0;
    return plans.map(({ value, isWrite, before, after, isLost }, i): Register => {
      if (isWrite) state = value;
      const [from, to] = [i - before, i + after];
      return isWrite ? write(from, isLost ? never : to, value) : read(from, to, state);
    });
  });

it("Every history that was made in an order is linearizable, and none in which a read is of a value that no client wrote", () => {
  fc.assert(
    fc.property(stretched, fc.nat(9), (history, i) => {
      expect(isLinearizable(history, REGISTER)).toBe(true);
      const wrong = history.toSpliced(i % (history.length + 1), 0, read(i, i + 1, 99));
      expect(isLinearizable(wrong, REGISTER)).toBe(false);
    }),
  );
});

it("The answer agrees with a trial of every permutation", () => {
  const random = fc.array(
    fc.record({
      value: fc.nat(2),
      isWrite: fc.boolean(),
      from: fc.nat(9),
      takes: fc.constantFrom(0, 1, 3, 6, never),
    }),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(random, (plans) => {
      const history = plans.map(({ value, isWrite, from, takes }) =>
        isWrite ? write(from, from + takes, value) : read(from, from + Math.min(takes, 6), value),
      );
      expect(isLinearizable(history, REGISTER)).toBe(hasOrder(history, 0));
    }),
    { numRuns: 300 },
  );
});

/** The definition, word by word. */
function hasOrder(left: readonly Register[], state: number): boolean {
  if (left.every(({ to }) => to === never)) return true;
  return left.some((op, i) => {
    const others = left.filter((_, other) => other !== i);
    if (others.some(({ to }) => to < op.from)) return false;
    const next = REGISTER.step(state, op);
    return next !== undefined && hasOrder(others, next);
  });
}
