import { parseArgs } from "node:util";
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
const BENCHMARKS: Readonly<Record<string, (trees: readonly Tree[], only: string) => Promise<void>>> = {
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

const USAGE = `Usage: npm run bench -- [--compare REF] [--only METHODS] [${Object.keys(BENCHMARKS).join("|")} …]`;

/** @param only beginning of the names of the operator's methods that are measured */
async function runAll(names: readonly string[], only: string, trees: readonly Tree[]): Promise<void> {
  for (const [name, bench] of Object.entries(BENCHMARKS)) {
    if (names.length === 0 || names.includes(name)) await bench(trees, only);
  }
}

const { values, positionals: names } = parse();
if (names.some((name) => !(name in BENCHMARKS))) fail();
const { compare, only = "" } = values;
if (compare === undefined) await runAll(names, only, [THIS_TREE]);
else await compareWith(compare, (trees) => runAll(names, only, trees));

function parse() {
  try {
    return parseArgs({
      options: { compare: { type: "string" }, only: { type: "string" } },
      allowPositionals: true,
    });
  } catch {
    return fail();
  }
}

function fail(): never {
  console.error(USAGE);
  process.exit(2);
}
