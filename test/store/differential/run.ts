import { isDeepStrictEqual } from "node:util";
import { START_MS } from "../store-fixtures.ts";
import { Generator } from "./generator.ts";
import { type Compared, Side } from "./side.ts";
import { linesOf, movedMs, type Step, textOf } from "./steps.ts";

/** Steps between two comparisons of all rows. */
const STEPS_PER_LOOK = 100;
/** Small, so that the queue is full at times. */
const MAX_PENDING = 15;

/** Two stores that say something different after the same steps. */
export interface Difference {
  readonly steps: readonly Step[];
  readonly what: string;
}

/** Steps of one run, and where the stores differed. */
export interface Outcome {
  readonly steps: readonly Step[];
  readonly operations: number;
  readonly difference: Difference | undefined;
}

/**
 * Runs the same random steps on several stores until one differs from the first. Each step is compared by what its
 * operations came to and what changes the store told, and now and then all rows are.
 *
 * Only operations of one kind are asked for at once. Those have the same outcome in whatever way a store puts them into a
 * batch: as if one came after the other.
 */
export async function runSeed(
  compared: readonly Compared[],
  seed: number,
  operations: number,
): Promise<Outcome> {
  const generator = new Generator(seed);
  let left = operations;
  const next = () => {
    if (left <= 0) return undefined;
    const step = generator.next();
    left -= step.name === "tick" ? 0 : step.asked.length;
    return step;
  };
  const learn = (step: Step, outcomes: readonly unknown[]) => generator.learn(step, outcomes);
  const { steps, what } = await run(compared, { next, learn, lookEvery: STEPS_PER_LOOK });
  return {
    steps,
    operations: operations - left,
    difference: what === undefined ? undefined : { steps, what },
  };
}

interface Source {
  /** Returns the next step; undefined after the last. */
  next(): Step | undefined;
  /** Gets what the first store's operations came to. */
  learn?(step: Step, outcomes: readonly unknown[]): void;
  /** Steps between two comparisons of all rows. */
  readonly lookEvery: number;
}

async function run(
  compared: readonly Compared[],
  { next, learn, lookEvery }: Source,
): Promise<{ steps: Step[]; what: string | undefined }> {
  const clock = { now: START_MS, latest: START_MS };
  const sides: Side[] = [];
  const steps: Step[] = [];
  // The stores add the same jitter to delays.
  const { random } = Math;
  Math.random = () => 0.5;
  try {
    for (const one of compared) sides.push(await Side.open(one, MAX_PENDING, clock));
    for (let step = next(); step !== undefined; step = next()) {
      steps.push(step);
      clock.now += movedMs(step);
      clock.latest = Math.max(clock.latest, clock.now);
      const { outcomes, what } = await runStep(sides, step);
      if (what !== undefined) return { steps, what };
      learn?.(step, outcomes);
      if (steps.length % lookEvery !== 0) continue;
      const found = await differentRows(sides);
      if (found !== undefined) return { steps, what: found };
    }
    return { steps, what: (await differentRows(sides)) ?? (await problems(sides)) };
  } finally {
    Math.random = random;
    await Promise.all(sides.map((side) => side.dispose()));
  }
}

async function runStep(
  sides: readonly Side[],
  step: Step,
): Promise<{ outcomes: readonly unknown[]; what: string | undefined }> {
  const ran = await Promise.all(sides.map((side) => side.run(step)));
  const first = ran[0] ?? { outcomes: [], committed: [] };
  for (const [index, one] of ran.entries()) {
    const difference = differenceOf(first, one);
    if (difference === undefined) continue;
    const about = linesOf(step).join("; ");
    return { outcomes: [], what: shown(about, difference, [sides[0], sides[index]]) };
  }
  return { outcomes: first.outcomes, what: undefined };
}

/** Compares all rows. @returns the rows of a table that the stores do not share */
async function differentRows(sides: readonly Side[]): Promise<string | undefined> {
  const [first, ...others] = await Promise.all(sides.map((side) => side.content()));
  for (const [index, other] of others.entries())
    for (const [table, rows] of first ?? []) {
      const otherRows = other.get(table) ?? [];
      if (isDeepStrictEqual(rows, otherRows)) continue;
      const only = (some: readonly string[], of: readonly string[]) =>
        some.filter((row) => !of.includes(row)).map((row) => JSON.parse(row) as unknown);
      const [row] = only(rows, otherRows);
      const [otherRow] = only(otherRows, rows);
      const difference = differenceOf(row, otherRow) ?? { at: "", left: row, right: otherRow };
      const about = `a row of ${table}, of ${textOf((row ?? otherRow) as object)}`;
      return shown(about, difference, [sides[0], sides[index + 1]]);
    }
  return undefined;
}

/** First place at which two values differ. */
interface ValueDifference {
  readonly at: string;
  readonly left: unknown;
  readonly right: unknown;
}

function differenceOf(left: unknown, right: unknown, at = ""): ValueDifference | undefined {
  if (isDeepStrictEqual(left, right)) return undefined;
  if (isObject(left) && isObject(right)) {
    for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
      const inner = differenceOf(left[key], right[key], `${at}.${key}`);
      if (inner !== undefined) return inner;
    }
  }
  return { at, left, right };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function shown(
  about: string,
  { at, left, right }: ValueDifference,
  sides: readonly (Side | undefined)[],
): string {
  const values = [left, right].map((value, index) => `${sides[index]?.name}: ${textOf(value)}`);
  return [`${at || "difference"} of ${about}`, ...values].join("\n  ");
}

async function problems(sides: readonly Side[]): Promise<string | undefined> {
  for (const side of sides) {
    const found = await side.check();
    if (found.length > 0) return `${side.name} says: ${found.join(" ")}`;
  }
  return undefined;
}

/** Most attempts to leave something out, and the most time for them. */
const MOST_ATTEMPTS = 600;
const SHRINK_MS = 180_000;

/**
 * Leaves out every operation without which the stores differ still, as far as the time allows: halves first, then quarters
 * and so on.
 */
export async function shrink(compared: readonly Compared[], found: Difference): Promise<Difference> {
  const deadline = performance.now() + SHRINK_MS;
  let shortest = found;
  let attempts = 0;
  let size = countOf(found);
  while (size > 1) {
    size = Math.ceil(size / 2);
    for (let end = countOf(shortest); end > 0; end -= size) {
      if (attempts >= MOST_ATTEMPTS || performance.now() > deadline) return shortest;
      attempts += 1;
      const { steps, what } = await replay(compared, without(shortest.steps, end - size, end));
      if (what !== undefined) shortest = { steps, what };
    }
  }
  return shortest;
}

function countOf({ steps }: Difference): number {
  return steps.reduce((count, { asked }) => count + asked.length, 0);
}

/** Leaves out the operations from a number on and below another. */
function without(steps: readonly Step[], from: number, below: number): Step[] {
  let number = -1;
  return steps.flatMap(({ name, asked }) => {
    const left = asked.filter(() => {
      number += 1;
      return number < from || number >= below;
    });
    return left.length === 0 ? [] : [{ name, asked: left }];
  });
}

async function replay(compared: readonly Compared[], steps: readonly Step[]) {
  let index = 0;
  const next = () => steps[index++];
  return run(compared, { next, lookEvery: Number.POSITIVE_INFINITY });
}

/** Describes a difference, for people. */
export function describeDifference({ steps, what }: Difference): string {
  return [what, "after", ...steps.flatMap(linesOf).map((line) => `  ${line}`)].join("\n");
}
