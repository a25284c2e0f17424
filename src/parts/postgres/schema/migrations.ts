import type { SchemaDialect } from "../../../store/module.ts";
import { ADOPTED_AND_REFUSED } from "./adopted-and-refused.ts";
import { CALLS } from "./calls.ts";
import { DEFERRED } from "./deferred.ts";
import { OFFERS } from "./offers.ts";
import { PAYMENTS } from "./payments.ts";
import { UPKEEP } from "./upkeep.ts";

/*
 * Conventions of the tables:
 * - u64 values are text, because Postgres' integers are signed. u32 values are bigint for the same reason.
 * - Times are Unix milliseconds unless the name says seconds.
 * - Hex that is compared (a payment's key) is written in lower case.
 * - job_calls holds only unfinished JobCalls, and no bodies, because each update writes a whole row anew.
 */

/** All tables of a new database. A table comes before the indexes of other tables that need it. */
const TABLES = [CALLS, PAYMENTS, OFFERS, DEFERRED, ADOPTED_AND_REFUSED, UPKEEP].join("");

/**
 * SQL from each version of the schema to the next; the first makes all tables. The database keeps the number of its last
 * migration in `schema_version`. A released migration is never edited.
 */
export const MIGRATIONS: readonly string[] = [TABLES];

/**
 * Schema version of the oldest release that can use the tables after all migrations. A migration that adds tables,
 * indexes and nullable columns leaves it unchanged, so that replicas of the release before run beside new replicas. A
 * migration that removes something that the release before uses raises it.
 */
export const OLDEST_USABLE_BY = 101;

/** Schema of the modules of parts. */
export const SCHEMA: SchemaDialect = {
  schema: "jobgate.",
  integer: "bigint",
  sum: "numeric",
  id: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
  freshId: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
  bytewiseText: 'text COLLATE "C"',
  plain: "",
  small: " WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500)",
  churning: " WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1)",
};
