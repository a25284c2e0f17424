import { parseArgs } from "node:util";
import { describeRun, openSeeds } from "./seeds.ts";
import { MAX_ATTEMPTS } from "./world/shrink.ts";
import type { PartName } from "./world/world.ts";

/* `npm run simulate -- --seed N --runs M`: simulates M worlds from seed N on. `--trace` shows all that happens in them.
   `--part` names a part of the worlds, in place of those that their seeds draw, and can be repeated. `--disk` puts their
   databases on a disk that fails, `--postgres` lets them share a Postgres, and `--crowd N` gives them N times as many
   clients. The last line has the totals, which can be added to those of other runs. */

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    runs: { type: "string", default: "1" },
    disk: { type: "boolean", default: false },
    postgres: { type: "boolean", default: false },
    part: { type: "string", multiple: true },
    crowd: { type: "string", default: "1" },
    trace: { type: "boolean", default: false },
  },
});
const [first, runs] = [Number(values.seed), Number(values.runs)];
const PROGRESS_EVERY = 1_000;

const seeds = await openSeeds(undefined, {
  ...{ hasDisk: values.disk, hasPostgres: values.postgres },
  ...{ parts: values.part as PartName[] | undefined, crowd: Number(values.crowd) },
});
const startedAt = performance.now();
let [payments, faults, broken, undecided] = [0, 0, 0, 0];
for (let seed = first; seed < first + runs; seed++) {
  const begunAt = performance.now();
  const outcome = await seeds.run(seed);
  payments += outcome.payments;
  faults += outcome.faults.length;
  undecided += outcome.undecided;
  if (outcome.broken !== undefined) {
    broken++;
    const secs = ((performance.now() - begunAt) / 1000).toFixed(1);
    console.log(
      `seed ${seed}: ${outcome.broken}. Looking for fewer clients and faults that break it, in up to ${MAX_ATTEMPTS} runs of ${secs} s`,
    );
    console.log(describeRun(await seeds.shrink(outcome)));
  } else if (values.trace) console.log(outcome.trace.join("\n"));
  if (runs === 1) console.log(`seed ${seed} has hash ${outcome.hash}`);
  if ((seed - first + 1) % PROGRESS_EVERY === 0) report("so far", seed - first + 1);
}
seeds.close();
report("total", runs);
process.exitCode = broken > 0 ? 1 : 0;

function report(of: string, done: number): void {
  const minutes = (performance.now() - startedAt) / 60_000;
  const pace = `${Math.round(done / minutes)} runs and ${Math.round(payments / minutes)} payments a minute`;
  const sums = `${payments} payments, ${faults} faults, ${broken} broken laws, ${undecided} left to the operator`;
  const cpuSecs = Math.round((process.cpuUsage().user + process.cpuUsage().system) / 1e6);
  console.log(`${of}: ${done} runs, ${sums}, ${cpuSecs} CPU seconds; ${pace}`);
}
