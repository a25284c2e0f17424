import { ADOPTED_AND_REFUSED } from "./adopted-and-refused.ts";
import { BOOKS } from "./books.ts";
import { BY_USE } from "./by-use.ts";
import { CALLBACKS } from "./callbacks.ts";
import { CALLS } from "./calls.ts";
import { OFFERS } from "./offers.ts";
import { PAYMENTS } from "./payments.ts";
import { REFUNDS } from "./refunds.ts";
import { TRANSACTIONS } from "./transactions.ts";
import { UPKEEP } from "./upkeep.ts";

/*
 * Conventions of the tables:
 * - u64 values are text: Postgres' integers are signed. u32 values are bigint for the same reason.
 * - Times are Unix milliseconds unless the name says seconds.
 * - Hex that is compared (a payment's key, a caller) is written in lower case.
 * - job_calls holds only what is not finished, and no bodies: each update writes a whole row anew.
 */

/** All tables of a new database. A table stands before the indexes of others that need it. */
const TABLES = [
  CALLS,
  PAYMENTS,
  OFFERS,
  TRANSACTIONS,
  REFUNDS,
  BY_USE,
  BOOKS,
  CALLBACKS,
  ADOPTED_AND_REFUSED,
  UPKEEP,
].join("");

/**
 * SQL from each version of the schema to the next; the first makes all tables. The database keeps the number of its last
 * migration in `schema_version`. A released migration is never edited.
 */
export const MIGRATIONS: readonly string[] = [TABLES];
