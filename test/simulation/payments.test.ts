import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "../helpers/bundle.ts";
import { openTestStore } from "../helpers/test-store.ts";
import { loadSimulation } from "./bundle-gateway.ts";
import { DISK_MUTANTS } from "./disk-mutants.ts";
import { expectEqualJournals } from "./equal-journals.ts";
import { mutated } from "./mutant.ts";
import { MUTANTS } from "./mutants.ts";
import { POSTGRES_MUTANTS } from "./postgres-mutants.ts";
import { SMALL } from "./scenarios.ts";
import { STORE_MUTANTS } from "./store-mutants.ts";
import { WORLD_MUTANTS } from "./world-mutants.ts";

const simulation = await loadSimulation();

describe("In every order of events, a payment has one job, and a refused one is not charged:", () => {
  it.each(Object.entries(SMALL))("%s", async (_, scenario) => {
    const { states } = await simulation.explore(() => new simulation.PaymentsRun(scenario), 5_000);
    expect(states).toBeGreaterThan(100);
  });
});

it("The SQLite store answers every sequence of three writes as the simulated journal does", async () => {
  const { store, stop } = await openTestStore();
  await expectEqualJournals(store, 3).finally(stop);
});

it("The code has the guards that the full tests remove", () => {
  for (const mutant of [...MUTANTS, ...WORLD_MUTANTS, ...DISK_MUTANTS, ...STORE_MUTANTS])
    expect(() => mutated(mutant), mutant.name).not.toThrow();
});

it("guards.md lists the guards that are removed, and how each is found", () => {
  const text = readFileSync(join(ROOT, "test/simulation/guards.md"), "utf8");
  const listed = [...text.matchAll(/^\| ([^|]+) \| (orders of events|worlds|disks|Postgres|tests) \|$/gm)];
  const removed = [
    ...MUTANTS.map(({ name }) => [name, "orders of events"]),
    ...WORLD_MUTANTS.map(({ name }) => [name, "worlds"]),
    ...DISK_MUTANTS.map(({ name }) => [name, "disks"]),
    ...POSTGRES_MUTANTS.map(({ name }) => [name, "Postgres"]),
    ...STORE_MUTANTS.map(({ name }) => [name, "tests"]),
  ];
  expect(listed.map(([, name, found]) => [name, found]).sort()).toEqual(removed.sort());
});
