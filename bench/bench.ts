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
import { benchStart, benchStarts } from "./start.ts";
import { commitFigures, type Figure, printSummary } from "./summary.ts";
import { compareWith, THIS_TREE, type Tree } from "./trees.ts";
import { benchWebhookModes } from "./webhook-modes.ts";

/** Run if none is named, and take three minutes together. Each prints a table, and returns figures of this checkout. */
const SHORT: Readonly<Record<string, (trees: readonly Tree[]) => Promise<readonly Figure[]>>> = {
  accepts: benchAccepts,
  jobs: benchJobs,
  paid: benchPaid,
  starts: benchStarts,
};

/** Each prints a table with ratios to a baseline from the same run, because absolute figures depend on the machine. */
const OTHERS: Readonly<Record<string, (trees: readonly Tree[], only: string) => Promise<void>>> = {
  apis: benchApis,
  channels: benchChannels,
  delivery: benchDelivery,
  inputs: benchInputs,
  lists: benchLists,
  lookups: benchLookups,
  operator: benchOperator,
  postgres: benchPostgres,
  retention: benchRetention,
  money: benchMoney,
  order: benchOrder,
  search: benchSearch,
  solana: benchSolana,
  start: benchStart,
  webhooks: benchWebhookModes,
};

const NAMES = [...Object.keys(SHORT), ...Object.keys(OTHERS)];

const USAGE = `Usage: npm run bench -- [--compare REF] [--commit] [--only METHODS] [all|${NAMES.join("|")} …]`;

/** @param only beginning of the names of the operator's methods that are measured */
async function run(only: string, trees: readonly Tree[]): Promise<void> {
  const figures: Figure[] = [];
  for (const [name, bench] of Object.entries(SHORT))
    if (names.includes(name)) figures.push(...(await bench(trees)));
  for (const [name, bench] of Object.entries(OTHERS)) if (names.includes(name)) await bench(trees, only);
  if (figures.length === 0 || compare !== undefined) return;
  printSummary(figures);
  if (doCommit) commitFigures(figures);
}

const { values, positionals } = parse();
const names = namesOf(positionals);
const { compare, only = "", commit: doCommit = false } = values;
if (compare === undefined) await run(only, [THIS_TREE]);
else await compareWith(compare, (trees) => run(only, trees));

function namesOf(given: readonly string[]): readonly string[] {
  if (given.length === 0) return Object.keys(SHORT);
  if (given.includes("all")) return NAMES;
  if (given.some((name) => !NAMES.includes(name))) fail();
  return given;
}

function parse() {
  try {
    return parseArgs({
      options: { compare: { type: "string" }, commit: { type: "boolean" }, only: { type: "string" } },
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
