import { describe, expect, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { POSTGRES_MUTANTS } from "./postgres-mutants.ts";
import { describeRun, firstBroken, openSeeds, seedsFrom } from "./seeds.ts";

const HAS_POSTGRES = { hasPostgres: true };
/** Worlds that are tried for a mutant. */
const MOST_SEEDS = 30;

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

describe("Without one of its guards the Postgres store breaks a law in some world:", () => {
  it.each(POSTGRES_MUTANTS)("$name", async (mutant) => {
    const seeds = await openSeeds(mutant, { ...HAS_POSTGRES, parts: mutant.parts });
    const named = mutant.seed === undefined ? [] : [mutant.seed];
    const broken = await firstBroken(seeds, [...named, ...seeds.smallestFirst(MOST_SEEDS)]);
    seeds.close();
    expect(broken?.broken).toMatch(/[a-z]/);
  });
});
