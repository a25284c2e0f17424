import { benchJobs } from "./jobs.ts";
import { benchPaid } from "./paid.ts";
import { benchPostgres } from "./postgres.ts";
import { benchAccepts, benchDelivery, CONFIG } from "./webhook.ts";
import { benchWebhookModes } from "./webhook-modes.ts";

/** Each prints a table with ratios to a baseline from the same run, because absolute figures depend on the machine. */
const BENCHMARKS: Readonly<Record<string, () => Promise<void>>> = {
  accepts: benchAccepts,
  delivery: benchDelivery,
  jobs: () => benchJobs(CONFIG),
  paid: benchPaid,
  postgres: benchPostgres,
  webhooks: benchWebhookModes,
};

const wanted = process.argv.slice(2);
for (const [name, run] of Object.entries(BENCHMARKS)) {
  if (wanted.length === 0 || wanted.includes(name)) await run();
}
