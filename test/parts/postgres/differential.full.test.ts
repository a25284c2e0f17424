import { expect, test } from "vitest";
import { OPERATION_NAMES } from "../../../src/store/operations.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { describeDifference, runSeed, shrink } from "../../store/differential/run.ts";
import { allStores } from "./compared.ts";

const RUNS = 10;
const OPERATIONS_PER_RUN = 2_000;

const postgres = startBeforeAll(startPostgres);

test("SQLite, Postgres and a Postgres in memory do the same for 20,000 random operations", async () => {
  const compared = allStores(postgres);
  const names = new Set<string>();
  for (let seed = 1; seed <= RUNS; seed++) {
    const { steps, difference } = await runSeed(compared, seed, OPERATIONS_PER_RUN);
    const smallest = difference && describeDifference(await shrink(compared, difference));
    expect(smallest, `seed ${seed}`).toBeUndefined();
    for (const { name } of steps) names.add(name);
  }
  expect(OPERATION_NAMES.filter((name) => !names.has(name))).toEqual([]);
});
