import { expect, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { POSTGRES_MUTANTS } from "./postgres-mutants.ts";
import { describeRun, firstBroken, openSeeds, seedsFrom } from "./seeds.ts";
import { testWorldMutants } from "./world-mutant-tests.ts";

const HAS_POSTGRES = { hasPostgres: true };

it("Every run of many worlds whose gateways share a Postgres keeps the laws of money", async () => {
  const seeds = await openSeeds(undefined, HAS_POSTGRES);
  const broken = await firstBroken(seeds, seedsFrom(1_000, howMany(3, 50)));
  seeds.close();
  expect(broken && describeRun(broken)).toBeUndefined();
});

it("Every run of many worlds with order and limits keeps the laws, on SQLite and on Postgres", async () => {
  for (const hasPostgres of [false, true]) {
    const seeds = await openSeeds(undefined, { hasPostgres, parts: ["order and limits"] });
    const broken = await firstBroken(seeds, seeds.smallestFirst(100).slice(0, howMany(5, 100)));
    seeds.close();
    expect(broken && describeRun(broken)).toBeUndefined();
  }
});

testWorldMutants(POSTGRES_MUTANTS, {
  found: "the Postgres store breaks a law in some world",
  options: HAS_POSTGRES,
  mostSeeds: 30,
});
