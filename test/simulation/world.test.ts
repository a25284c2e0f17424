import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeRun, firstBroken, openSeeds, type Seeds, seedsFrom } from "./seeds.ts";

/** The worlds take 20 s of one core, and a busy machine has a part of it. */
const timeout = 180_000;

let seeds: Seeds;
beforeAll(async () => {
  seeds = await openSeeds();
});
afterAll(() => seeds.close());

describe("A simulated world with crashes, lies and lost messages", () => {
  it("Keeps the laws of money, and does the same each time that it runs from one seed", {
    timeout,
  }, async () => {
    const first = await seeds.run(45);
    const other = await seeds.run(52);
    const again = await seeds.run(45);
    for (const run of [first, other]) expect(run.broken && describeRun(run)).toBeUndefined();
    expect(again.trace).toEqual(first.trace);
    expect(again.hash).toBe(first.hash);
    expect(other.hash).not.toBe(first.hash);
  });
});

it("A simulated world with payments on Solana keeps the laws of money", { timeout }, async () => {
  const cluster = await openSeeds(undefined, { parts: ["payments on Solana"] });
  const run = await cluster.run(1);
  cluster.close();
  expect(run.broken && describeRun(run)).toBeUndefined();
  expect(run.trace.some((line) => line.includes(" lands"))).toBe(true);
});

it("A simulated world with payment channels keeps the laws of money", { timeout }, async () => {
  const channels = await openSeeds(undefined, { parts: ["payment channels"] });
  const run = await channels.run(28);
  channels.close();
  expect(run.broken && describeRun(run)).toBeUndefined();
  expect(run.trace.some((line) => line.includes("a claim of") && line.endsWith("is made"))).toBe(true);
});

it("A simulated world with order and limits keeps the laws of order", { timeout }, async () => {
  const ordered = await openSeeds(undefined, { parts: ["order and limits"] });
  const run = await ordered.run(14);
  ordered.close();
  expect(run.broken && describeRun(run)).toBeUndefined();
  expect(run.trace.some((line) => line.endsWith("which held its key"))).toBe(true);
});

it("A run that breaks a law is told without what the law does not need", { timeout }, async () => {
  const careless = await openSeeds({
    file: "x402/settlement/outcome-recorder.ts",
    from: "return this.#undecided(intent, evidence.reason);",
    to: "return this.fail(intent, evidence.reason);",
  });
  const broken = await firstBroken(careless, seedsFrom(8, 10));
  if (broken === undefined) throw new Error("no run broke a law");
  const smallest = await careless.shrink(broken);
  careless.close();
  expect(describeRun(smallest)).toMatch(
    /^seed [0-9]+: payment [0-9a-f]+ of [a-z]+ [0-9]+ was charged after a no\n/,
  );
  expect(smallest.faults.length).toBeLessThan(10);
  expect(smallest.trace.length).toBeLessThan(60);
});
