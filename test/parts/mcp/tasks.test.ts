import { expect, it } from "vitest";
import { progressAfter, type ToldProgress } from "../../../src/parts/mcp/tasks.ts";
import type { CallState } from "../../../src/store/contract/call-lookup.ts";

/** Values that a client is told while the runner reports these. */
function toldOf(reports: readonly (readonly [percent: number, text: string])[]): number[] {
  const values: number[] = [];
  let told: ToldProgress | undefined;
  for (const [percent, text] of reports) {
    const next = progressAfter(told, { progress: { percent, text } } as CallState);
    if (next === undefined) continue;
    told = next;
    values.push(next.progress);
  }
  return values;
}

const STEP = 1 / 128;

it("Progress increases by a fraction with a new text, and also when an attempt begins anew", () => {
  expect(
    toldOf([
      [40, "a"],
      [40, "b"],
      [5, "c"],
      [5, "c"],
      [6, "c"],
      [41, "c"],
    ]),
  ).toEqual([40, 40 + STEP, 40 + 2 * STEP, 41]);
});

it("Progress without a change is sent once", () => {
  expect(
    toldOf([
      [0, ""],
      [0, ""],
      [7, ""],
      [7, ""],
    ]),
  ).toEqual([0, 7]);
});

it("Progress is at most the total, and nothing follows the total", () => {
  const texts = Array.from({ length: 200 }, (_, i) => [99, `text ${i}`] as const);
  const values = toldOf([...texts, [100, "end"], [100, "more"], [3, "again"]]);
  expect(values).toEqual([...Array.from({ length: 128 }, (_, i) => 99 + i * STEP), 100]);
  expect(progressAfter(undefined, {} as CallState)).toBeUndefined();
});
