import { describe, expect, it } from "vitest";
import { describeRun, openSeeds } from "./seeds.ts";
import type { Outcome, RunOptions } from "./world/world.ts";

/** The worlds take seconds of one core, and a busy machine has a part of it. */
const timeout = 180_000;

async function run(seed: number, options: RunOptions = {}): Promise<Outcome> {
  const seeds = await openSeeds(undefined, options);
  const outcome = await seeds.run(seed);
  seeds.close();
  expect(outcome.broken && describeRun(outcome)).toBeUndefined();
  return outcome;
}

describe("A simulated world", { timeout }, () => {
  it("With crashes, lies and lost messages keeps the laws of money, and does the same each time that it runs from one seed", async () => {
    const first = await run(11);
    const other = await run(37);
    const again = await run(11);
    expect(again.trace).toEqual(first.trace);
    expect(again.hash).toBe(first.hash);
    expect(other.hash).not.toBe(first.hash);
  });

  it("Whose gateways share a Postgres keeps the laws of money, and does the same each time", async () => {
    // Three gateways, one fail-over and few clients.
    const first = await run(15, { hasPostgres: true });
    const again = await run(15, { hasPostgres: true });
    expect(again.trace).toEqual(first.trace);
  });

  it("With payments on Solana keeps the laws of money", async () => {
    const { trace } = await run(37, { parts: ["payments on Solana"] });
    expect(trace.some((line) => line.includes(" lands"))).toBe(true);
  });

  it("With payment channels keeps the laws of money", async () => {
    const { trace } = await run(28, { parts: ["payment channels"] });
    expect(trace.some((line) => line.includes("a claim of") && line.endsWith("is made"))).toBe(true);
  });

  it("With order and limits keeps the laws of order", async () => {
    const { trace } = await run(49, { parts: ["order and limits"] });
    expect(trace.some((line) => line.endsWith("which held its key"))).toBe(true);
  });
});
