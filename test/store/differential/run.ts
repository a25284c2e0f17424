import { isDeepStrictEqual } from "node:util";
import { START_MS } from "../store-fixtures.ts";
import { Generator } from "./generator.ts";
import { type Compared, Side } from "./side.ts";
import { linesOf, type Step, textOf } from "./steps.ts";

/** Steps between two comparisons of all rows. */
const STEPS_PER_LOOK = 100;
/** Small, so that the queue is full at times. */
const MAX_PENDING = 40;

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
    left -= step.name === "tick" ? 0 : step.inputs.length;
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
      if (step.name === "tick") clock.now += Number(step.inputs[0]?.[0]);
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
    if (isDeepStrictEqual(one, first)) continue;
    const told = isDeepStrictEqual(one.outcomes, first.outcomes) ? "committed" : "outcomes";
    const shown = [0, index].map((at) => `${sides[at]?.name}: ${textOf(ran[at]?.[told])}`);
    return { outcomes: [], what: [`${told} of ${linesOf(step).join("; ")}`, ...shown].join("\n") };
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
      const only = (some: readonly string[], without: readonly string[]) =>
        some.filter((row) => !without.includes(row)).slice(0, 3);
      return [
        `rows of ${table}`,
        `${sides[0]?.name} alone: ${only(rows, otherRows).join("\n  ")}`,
        `${sides[index + 1]?.name} alone: ${only(otherRows, rows).join("\n  ")}`,
      ].join("\n");
    }
  return undefined;
}

async function problems(sides: readonly Side[]): Promise<string | undefined> {
  for (const side of sides) {
    const found = await side.check();
    if (found.length > 0) return `${side.name} says: ${found.join(" ")}`;
  }
  return undefined;
}

/** Most attempts to make a list of steps shorter, and the most time for them. */
const MOST_ATTEMPTS = 400;
const SHRINK_MS = 120_000;

/** Leaves out every step without which the stores differ still, as far as the time allows. */
export async function shrink(compared: readonly Compared[], found: Difference): Promise<Difference> {
  const deadline = performance.now() + SHRINK_MS;
  let shortest = found;
  let attempts = 0;
  for (let size = Math.ceil(found.steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let end = shortest.steps.length; end > 0; end -= size) {
      if (attempts >= MOST_ATTEMPTS || performance.now() > deadline) return shortest;
      attempts += 1;
      const left = shortest.steps.toSpliced(Math.max(0, end - size), Math.min(size, end));
      const { steps, what } = await replay(compared, left);
      if (what !== undefined) shortest = { steps, what };
      end = Math.min(end, shortest.steps.length + size);
    }
  }
  return shortest;
}

async function replay(compared: readonly Compared[], steps: readonly Step[]) {
  let index = 0;
  const next = () => steps[index++];
  return run(compared, { next, lookEvery: Number.POSITIVE_INFINITY });
}

/** Describes a difference, for people. */
export function describeDifference({ steps, what }: Difference): string {
  return [what, "after", ...steps.flatMap(linesOf)].join("\n  ");
}
