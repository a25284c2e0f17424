/** Small tables of the store itself: its commits, locks, secrets, keys of deliveries, and counts of pruned entries. */
export const UPKEEP = `
-- The sum of n is how many rows of job_calls are not dead letters: counting them for each batch would cost more than the
-- batch. Many rows, so that batches that run at the same time do not wait for each other.
CREATE TABLE jobgate.pending (
  slot int PRIMARY KEY,
  n    bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 500);
INSERT INTO jobgate.pending SELECT slot, 0 FROM generate_series(1, 64) AS slot;

-- Recently committed batches, to look up the outcome of an unanswered COMMIT.
CREATE TABLE jobgate.batches (
  id           uuid PRIMARY KEY,
  -- Written by a replica that looked the batch up and did not find it: then it can no longer be committed.
  is_abandoned boolean NOT NULL,
  committed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX batches_by_age ON jobgate.batches (committed_at);

-- Locks of background services: the replica that may do a service's work, until its lock ends. A sender of transactions has a lock for
-- each network, with the network's name.
CREATE TABLE jobgate.locks (
  name       text PRIMARY KEY,
  owner      text NOT NULL,
  held_until bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500);

-- Random secrets that stay the same over restarts and replicas: access tokens are derived from one of them.
CREATE TABLE jobgate.secrets (
  name   text PRIMARY KEY,
  secret text NOT NULL
);

-- Keys that identify repeated webhook deliveries, until the endpoint's window ends.
CREATE TABLE jobgate.deliveries (
  key        text PRIMARY KEY,
  -- A delivery with another body under the same key is refused.
  body_hash  text NOT NULL,
  -- The JobCall that the first delivery became.
  call_id    bigint NOT NULL,
  expires_at bigint NOT NULL
);
CREATE INDEX deliveries_by_end ON jobgate.deliveries (expires_at);

-- Counts of pruned entries by what they were (settled and failed payments, done and dead calls), so that the journal
-- can be checked.
CREATE TABLE jobgate.pruned (
  name text PRIMARY KEY,
  n    bigint NOT NULL
);

-- Counts of payments and paid calls that ended, by how, and with those that were pruned since: the totals do not count rows. A count
-- changes in the commit that ends a payment or a call.
CREATE TABLE jobgate.ended (
  name text NOT NULL,
  slot int NOT NULL,
  n    numeric NOT NULL,
  PRIMARY KEY (name, slot)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500);
`;
