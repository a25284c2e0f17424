import type { SchemaDialect } from "../../module.ts";
import { CALLS } from "./calls.ts";
import { ADOPTED_AND_REFUSED, DEFERRED, OFFERS, PAYMENTS } from "./payments.ts";

/* Conventions of the tables: - u64 values are TEXT, because SQLite's integers are signed. - Times are Unix milliseconds
   unless the name says seconds. - job_calls holds only unfinished JobCalls, and no bodies, so that claims touch few
   pages. - Large columns are last in their row, because SQLite reads through them to reach the columns behind. */

/** Small tables of the store itself: its probe, secrets, keys of deliveries, and counts of pruned entries. */
const UPKEEP = `
-- One row, which the probe rewrites while the store cannot write.
CREATE TABLE probe (writes INTEGER NOT NULL) STRICT;
INSERT INTO probe VALUES (0);

-- Random secrets that stay the same over restarts: access tokens are derived from one of them.
CREATE TABLE secrets (
  name   TEXT PRIMARY KEY,
  secret TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys that identify repeated webhook deliveries, until the endpoint's window ends.
CREATE TABLE deliveries (
  key        TEXT PRIMARY KEY,
  -- A delivery with another body under the same key is refused.
  body_hash  TEXT NOT NULL,
  -- The JobCall that the first delivery became.
  call_id    INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_by_end ON deliveries (expires_at);

-- Counts of pruned entries by what they were (settled and failed payments, done and dead calls), so that the journal
-- can be checked.
CREATE TABLE pruned (
  name TEXT PRIMARY KEY,
  n    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Counts of payments and paid calls that ended, by how, and with those that were pruned since: the totals do not count rows. A count
-- changes in the commit that ends a payment or a call.
CREATE TABLE ended (
  name TEXT NOT NULL,
  slot INTEGER NOT NULL,
  n    TEXT NOT NULL,
  PRIMARY KEY (name, slot)
) STRICT, WITHOUT ROWID;
`;

/** All tables of a new file. A table comes before the indexes of other tables that need it. */
const TABLES = [CALLS, PAYMENTS, OFFERS, DEFERRED, ADOPTED_AND_REFUSED, UPKEEP].join("");

/**
 * SQL from each version of the schema to the next. The first migration makes all tables. The file keeps the number of
 * its last migration in `user_version`. A released migration is never edited.
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
