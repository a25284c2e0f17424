import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { DISK_MUTANTS, OFTEN } from "./disk-mutants.ts";
import { describeRun, firstBroken, openSeeds, type Seeds, seedsFrom } from "./seeds.ts";
import { testWorldMutants } from "./world-mutant-tests.ts";

const HAS_DISK = { hasDisk: true };

describe("A simulated world whose disk fails", () => {
  let seeds: Seeds;
  beforeAll(async () => {
    seeds = await openSeeds(undefined, HAS_DISK);
  });
  afterAll(() => seeds.close());

  it("Keeps the laws of money, and all that was acknowledged, in every run", async () => {
    const broken = await firstBroken(seeds, seedsFrom(1_000, howMany(3, 50)));
    expect(broken && describeRun(broken)).toBeUndefined();
  });

  it("Keeps them also where syncs fail again and again", async () => {
    const failing = await openSeeds(undefined, { ...HAS_DISK, syncFailure: OFTEN });
    const broken = await firstBroken(failing, seedsFrom(1, howMany(2, 20)));
    failing.close();
    expect(broken && describeRun(broken)).toBeUndefined();
  });

  it("Does the same each time that it runs from one seed", async () => {
    const first = await seeds.run(6);
    await seeds.run(7);
    expect((await seeds.run(6)).trace).toEqual(first.trace);
  });
});

testWorldMutants(DISK_MUTANTS, {
  found: "the gateway loses something in some world whose disk fails",
  options: HAS_DISK,
  mostSeeds: 150,
});
