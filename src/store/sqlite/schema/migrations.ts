import type { SchemaDialect } from "../../module.ts";
import { ADOPTED_AND_REFUSED } from "./adopted-and-refused.ts";
import { CALLS } from "./calls.ts";
import { DEFERRED } from "./deferred.ts";
import { OFFERS } from "./offers.ts";
import { PAYMENTS } from "./payments.ts";
import { UPKEEP } from "./upkeep.ts";

/*
 * Conventions of the tables:
 * - u64 values are TEXT: SQLite's integers are signed.
 * - Times are Unix milliseconds unless the name says seconds.
 * - job_calls holds only what is not finished, and no bodies, so that claims touch few pages.
 * - What is large stands last in its row: SQLite reads through it to reach the columns behind.
 */

/** All tables of a new file. A table stands before the indexes of others that need it. */
const TABLES = [CALLS, PAYMENTS, OFFERS, DEFERRED, ADOPTED_AND_REFUSED, UPKEEP].join("");

/**
 * SQL from each version of the schema to the next; the first makes all tables. The file keeps the number of its last
 * migration in `user_version`. A released migration is never edited.
 */
export const MIGRATIONS: readonly string[] = [TABLES];

/** Schema of the modules of parts. */
export const SCHEMA: SchemaDialect = {
  schema: "",
  integer: "INTEGER",
  sum: "TEXT",
  id: "INTEGER PRIMARY KEY",
  freshId: "INTEGER PRIMARY KEY AUTOINCREMENT",
  bytewiseText: "TEXT",
  plain: " STRICT",
  small: " STRICT, WITHOUT ROWID",
  churning: " STRICT",
};
