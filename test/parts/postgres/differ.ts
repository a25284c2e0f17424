import { parseArgs } from "node:util";
import { startPostgres } from "../../helpers/postgres.ts";
import { describeDifference, runSeed, shrink } from "../../store/differential/run.ts";
import { allStores } from "./compared.ts";

/* Compares SQLite, Postgres and a Postgres in memory by hand: node --import tsx test/parts/postgres/differ.ts --seed 1 --operations 1000000 */

const OPERATIONS_PER_RUN = 2_000;

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    operations: { type: "string", default: "20000" },
  },
});
const postgres = await startPostgres();
const compared = allStores(postgres);
const startedAt = performance.now();
const most = Number(values.operations);
let done = 0;
let differences = 0;
try {
  for (let seed = Number(values.seed); done < most && differences === 0; seed++) {
    const { operations, difference } = await runSeed(
      compared,
      seed,
      Math.min(OPERATIONS_PER_RUN, most - done),
    );
    done += operations;
    const secs = Math.round((performance.now() - startedAt) / 1_000);
    console.log(`seed ${seed}: ${done} operations in ${secs} s`);
    if (difference === undefined) continue;
    differences += 1;
    console.log(`${difference.what}\nLeaving out what it does not need …`);
    console.log(describeDifference(await shrink(compared, difference)));
  }
} finally {
  await postgres.stop();
}
console.log(`${done} operations, ${differences} differences`);
process.exitCode = differences === 0 ? 0 : 1;
