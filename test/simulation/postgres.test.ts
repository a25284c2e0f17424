import { describe, expect, it } from "vitest";
import { describeRun, openSeeds } from "./seeds.ts";

describe("A simulated world whose gateways share a Postgres", () => {
  it("Keeps the laws of money, and does the same each time that it runs from one seed", async () => {
    const seeds = await openSeeds(undefined, { hasPostgres: true });
    const first = await seeds.run(6);
    const again = await seeds.run(6);
    seeds.close();
    expect(first.broken && describeRun(first)).toBeUndefined();
    expect(again.trace).toEqual(first.trace);
  });
});
