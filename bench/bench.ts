import { benchAccepts } from "./accepts.ts";
import { benchApis } from "./apis.ts";
import { benchChannels } from "./channels.ts";
import { benchDelivery } from "./delivery.ts";
import { benchInputs } from "./inputs.ts";
import { benchJobs } from "./jobs.ts";
import { benchLists } from "./lists.ts";
import { benchLookups } from "./lookups.ts";
import { benchMoney } from "./money.ts";
import { benchOperator } from "./operator.ts";
import { benchOrder } from "./order.ts";
import { benchPaid } from "./paid.ts";
import { benchPostgres } from "./postgres.ts";
import { benchRetention } from "./retention.ts";
import { benchSearch } from "./search.ts";
import { benchSolana } from "./solana.ts";
import { benchStart } from "./start.ts";
import { compareWith, THIS_TREE, type Tree } from "./trees.ts";
import { benchWebhookModes } from "./webhook-modes.ts";

/** Each prints a table with ratios to a baseline from the same run, because absolute figures depend on the machine. */
const BENCHMARKS: Readonly<Record<string, (trees: readonly Tree[]) => Promise<void>>> = {
  accepts: benchAccepts,
  apis: benchApis,
  channels: benchChannels,
  delivery: benchDelivery,
  inputs: benchInputs,
  jobs: benchJobs,
  lists: benchLists,
  lookups: benchLookups,
  operator: benchOperator,
  paid: benchPaid,
  postgres: benchPostgres,
  retention: benchRetention,
  money: benchMoney,
  order: benchOrder,
  search: benchSearch,
  solana: benchSolana,
  start: benchStart,
  webhooks: benchWebhookModes,
};

const USAGE = `Usage: npm run bench -- [--compare REF] [${Object.keys(BENCHMARKS).join("|")} …]`;

async function runAll(names: readonly string[], trees: readonly Tree[]): Promise<void> {
  for (const [name, bench] of Object.entries(BENCHMARKS)) {
    if (names.length === 0 || names.includes(name)) await bench(trees);
  }
}

const words = process.argv.slice(2);
const ref = words[0] === "--compare" ? words[1] : undefined;
const names = words.slice(words[0] === "--compare" ? 2 : 0);
if (names.some((name) => !(name in BENCHMARKS)) || (words[0] === "--compare" && ref === undefined)) {
  console.error(USAGE);
  process.exit(2);
}
if (ref === undefined) await runAll(names, [THIS_TREE]);
else await compareWith(ref, (trees) => runAll(names, trees));
