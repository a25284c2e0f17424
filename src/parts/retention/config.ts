import * as z from "zod";
import type { Complete } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import { fixed } from "../../config/reload.ts";
import { days } from "../../config/value-types.ts";

/** Ages, since the end, at which the store deletes entries. Undefined if the entries are kept. */
const ages = z.object({
  /** Results and outcomes of paid calls. Until this age, their clients can read them. */
  resultsDays: days().default(30),
  /** Finished JobCalls in the operator's lists. */
  callsDays: days().default(90),
  paymentsDays: days().optional(),
  deadLettersDays: days().optional(),
});

export type RetentionConfig = Complete<z.output<typeof ages>>;

/** `[store.retention]` */
export const retentionTable = ConfigTable.of({
  in: ["store"],
  keys: { retention: fixed(ages.prefault({})) },
  complete: ({ retention }): RetentionConfig => retention,
});
