import { describe, expect, it } from "vitest";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { openTestStore } from "../helpers/test-store.ts";
import { openReplica, PATIENT } from "../parts/postgres/open-in-database.ts";
import { loadSimulation } from "./bundle-gateway.ts";
import { expectEqualJournals } from "./equal-journals.ts";
import { MUTANTS } from "./mutants.ts";
import { LARGE } from "./scenarios.ts";

/** More than any scenario has. */
const MAX_STATES = 100_000;

describe("In every order of events, a payment has one job, and a refused one is not charged:", () => {
  it.each(Object.entries(LARGE))("%s", async (_, scenario) => {
    const { explore, PaymentsRun } = await loadSimulation();
    const { states } = await explore(() => new PaymentsRun(scenario), MAX_STATES);
    expect(states).toBeGreaterThan(1_000);
  });
});

describe("Without one of its guards the gateway breaks a law of money, and the run that shows it is printed:", () => {
  it.each(MUTANTS)("$name", async ({ scenario, ...mutant }) => {
    const { explore, PaymentsRun } = await loadSimulation(mutant);
    const explored = explore(() => new PaymentsRun(scenario), MAX_STATES);
    await expect(explored).rejects.toThrow(/^Error: .*(payment|purchase).*\n {2}1\. /);
  });
});

describe("Every sequence of four writes is answered as the simulated journal does by", () => {
  const postgres = startBeforeAll(startPostgres);

  it("The Postgres store", async () => {
    const store = await openReplica(await postgres.createDatabase(), { timeouts: PATIENT });
    await expectEqualJournals(store, 4).finally(() => store.close());
  });

  it("The SQLite store", async () => {
    const { store, stop } = await openTestStore();
    await expectEqualJournals(store, 4).finally(stop);
  });
});
