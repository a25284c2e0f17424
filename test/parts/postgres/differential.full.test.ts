import { expect, test } from "vitest";
import { OPERATION_NAMES } from "../../../src/store/operations.ts";
import { howMany } from "../../helpers/how-many.ts";
import { startPgBouncer } from "../../helpers/pgbouncer.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { describeDifference, runSeed, shrink } from "../../store/differential/run.ts";
import { allStores } from "./compared.ts";

const RUNS = howMany(2, 5);
const OPERATIONS_PER_RUN = 2_000;

const postgres = startBeforeAll(() => startPostgres({ settings: { max_connections: "200" } }));
const pooler = startBeforeAll(() => startPgBouncer(postgres));

test.each(["Postgres", "Postgres through PgBouncer in transaction mode"])(
  "SQLite, %s and a Postgres in memory do the same for thousands of random operations, each kind among them",
  async (name) => {
    const isPooled = name !== "Postgres";
    const compared = allStores(postgres, isPooled ? pooler : undefined);
    const names = new Set<string>();
    const first = isPooled ? 1 + RUNS : 1;
    for (let seed = first; seed < first + RUNS; seed++) {
      const { steps, difference } = await runSeed(compared, seed, OPERATIONS_PER_RUN);
      const smallest = difference && describeDifference(await shrink(compared, difference));
      expect(smallest, `seed ${seed}`).toBeUndefined();
      for (const { name } of steps) names.add(name);
    }
    expect(OPERATION_NAMES.filter((name) => !names.has(name))).toEqual([]);
  },
);
