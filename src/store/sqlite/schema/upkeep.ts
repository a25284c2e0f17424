/** Small tables of the store itself: its probe, secrets, keys of deliveries, and counts of what was pruned. */
export const UPKEEP = `
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

-- Counts of pruned entries by what they were (settled and failed payments, done and dead calls), so that the totals still
-- balance.
CREATE TABLE pruned (
  name TEXT PRIMARY KEY,
  n    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`;
