import { describe, expect, it } from "vitest";
import { describeRun, openSeeds } from "./seeds.ts";

/** A world of three gateways, one fail-over and few clients. */
const SEED = 15;

describe("A simulated world whose gateways share a Postgres", () => {
  it("Keeps the laws of money, and does the same each time that it runs from one seed", async () => {
    const seeds = await openSeeds(undefined, { hasPostgres: true });
    const first = await seeds.run(SEED);
    const again = await seeds.run(SEED);
    seeds.close();
    expect(first.broken && describeRun(first)).toBeUndefined();
    expect(again.trace).toEqual(first.trace);
  });
});
