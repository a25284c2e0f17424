/*
 * The tables, as migrations. A released migration is never edited: a file keeps the number of its last one in
 * `user_version`, and a file of a newer jobgate is refused, not damaged.
 *
 * - u64 values are TEXT: SQLite's integers are signed.
 * - Times are Unix milliseconds unless the name says seconds.
 * - job_calls holds only what is not finished, and no bodies, so that claims touch few pages.
 */

const FIRST = `
-- held: waits for its payment · ready · leased, until visible_at · delayed: retried, from visible_at · dead
CREATE TABLE job_calls (
  -- AUTOINCREMENT: an id is never given twice, not even after its row is gone.
  call_id     INTEGER PRIMARY KEY AUTOINCREMENT,
  origin      TEXT NOT NULL,
  job_id      TEXT NOT NULL,
  service_id  TEXT NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('held', 'ready', 'leased', 'delayed', 'dead')),
  visible_at  INTEGER,
  attempts    INTEGER NOT NULL DEFAULT 0,
  -- Attempts that do not count towards max_attempts.
  forgiven    INTEGER NOT NULL DEFAULT 0,
  lease_token TEXT,
  subscriber  TEXT,
  -- Progress that the runner reported with its lease.
  progress_percent INTEGER,
  progress_text    TEXT,
  enqueued_at INTEGER NOT NULL,
  dead_at     INTEGER,
  dead_reason TEXT
) STRICT;
CREATE INDEX job_calls_ready        ON job_calls (call_id)             WHERE state = 'ready';
CREATE INDEX job_calls_ready_by_job ON job_calls (job_id, call_id)     WHERE state = 'ready';
CREATE INDEX job_calls_waiting      ON job_calls (visible_at, call_id) WHERE state IN ('leased', 'delayed');
CREATE INDEX job_calls_dead         ON job_calls (call_id)             WHERE state = 'dead';

CREATE TABLE job_bodies (
  call_id INTEGER PRIMARY KEY,
  encoded BLOB NOT NULL
) STRICT;

-- NOCASE where hex is compared: the same payment in another letter case is the same payment.
CREATE TABLE payments (
  network                 TEXT NOT NULL COLLATE NOCASE,
  asset                   TEXT NOT NULL COLLATE NOCASE,
  payer                   TEXT NOT NULL COLLATE NOCASE,
  nonce                   TEXT NOT NULL COLLATE NOCASE,
  state                   TEXT NOT NULL CHECK (state IN ('intent', 'settled', 'failed', 'unresolved')),
  call_id                 INTEGER NOT NULL UNIQUE,
  service_id              TEXT NOT NULL,
  job_index               INTEGER NOT NULL,
  fingerprint             TEXT NOT NULL UNIQUE,
  body_hash               TEXT NOT NULL,
  x402_version            INTEGER NOT NULL,
  payload                 TEXT NOT NULL,
  requirements            TEXT NOT NULL,
  transfer_method         TEXT NOT NULL,
  pay_to                  TEXT NOT NULL,
  amount                  TEXT NOT NULL,
  symbol                  TEXT NOT NULL,
  price_wei               TEXT NOT NULL,
  valid_before_secs       INTEGER NOT NULL,
  receipt                 TEXT NOT NULL,
  from_block              TEXT,
  caller                  TEXT,
  caller_service_id       TEXT,
  caller_job_index        INTEGER,
  caller_nonce            TEXT,
  caller_expires_at_secs  INTEGER,
  settlement              TEXT,
  reason                  TEXT,
  created_at              INTEGER NOT NULL,
  updated_at              INTEGER NOT NULL,
  PRIMARY KEY (network, asset, payer, nonce)
) STRICT;
CREATE INDEX payments_by_state ON payments (state, call_id);

CREATE TABLE caller_nonces (
  caller          TEXT NOT NULL COLLATE NOCASE,
  service_id      TEXT NOT NULL,
  job_index       INTEGER NOT NULL,
  nonce           TEXT NOT NULL,
  expires_at_secs INTEGER NOT NULL,
  -- The payment that used it up.
  call_id         INTEGER NOT NULL,
  PRIMARY KEY (caller, service_id, job_index, nonce)
) STRICT;
CREATE INDEX caller_nonces_expiry ON caller_nonces (expires_at_secs);

-- How paid calls ended. A call is in job_calls or here, never in both.
CREATE TABLE results (
  call_id      INTEGER PRIMARY KEY,
  state        TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
  attempt      INTEGER NOT NULL,
  enqueued_at  INTEGER NOT NULL,
  finished_at  INTEGER NOT NULL,
  body         BLOB,
  content_type TEXT
) STRICT;
CREATE INDEX results_by_state ON results (state);

CREATE TABLE offers (
  id          TEXT PRIMARY KEY,
  offer       TEXT NOT NULL,
  valid_until INTEGER
) STRICT;

-- One row that the probe rewrites while the store cannot write.
CREATE TABLE probe (writes INTEGER NOT NULL) STRICT;
INSERT INTO probe VALUES (0);
`;

const OFFERS_BY_JOB_AND_QUOTES = `
-- Offers made to clients, by job, while they are payable.
ALTER TABLE offers RENAME TO first_offers;
CREATE TABLE offers (
  id          TEXT PRIMARY KEY,
  service_id  TEXT NOT NULL,
  job_index   INTEGER NOT NULL,
  offer       TEXT NOT NULL,
  valid_until INTEGER NOT NULL
) STRICT;
CREATE INDEX offers_by_job ON offers (service_id, job_index);
CREATE INDEX offers_by_end ON offers (valid_until);
INSERT INTO offers
  SELECT id, offer ->> '$.job.serviceId', offer ->> '$.job.jobIndex', offer,
         COALESCE(valid_until, unixepoch() * 1000 + (offer ->> '$.ttlSecs') * 1000)
    FROM first_offers;
DROP TABLE first_offers;

-- Signed quotes that can be paid, by their EIP-712 digest.
CREATE TABLE quotes (
  digest     TEXT PRIMARY KEY,
  quote      TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX quotes_by_end ON quotes (expires_at);

-- A receipt is one payment's, and so a quote is paid once. One that was certainly not paid leaves it free.
CREATE UNIQUE INDEX payments_by_receipt ON payments (receipt) WHERE state <> 'failed';

-- Settled payments, by time.
CREATE INDEX payments_settled ON payments (updated_at) WHERE state = 'settled';
`;

const DELIVERIES = `
-- Keys that identify repeated webhook deliveries, until the endpoint's window ends.
CREATE TABLE deliveries (
  key        TEXT PRIMARY KEY,
  body_hash  TEXT NOT NULL,
  call_id    INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_by_end ON deliveries (expires_at);
`;

const SECRETS = `
-- Random secrets that stay the same over restarts: access tokens are derived from one.
CREATE TABLE secrets (
  name   TEXT PRIMARY KEY,
  secret TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`;

const UNDECIDED = `
-- Undecided payments by age, of everyone and of one payer.
CREATE INDEX payments_undecided          ON payments (created_at)        WHERE state = 'intent';
CREATE INDEX payments_undecided_by_payer ON payments (payer, created_at) WHERE state = 'intent';
`;

const QUOTES_SHARED = `
-- A quote that a client names is paid once, unless its payment failed. Buyers at one current price share its quote.
ALTER TABLE payments ADD COLUMN redeems_quote INTEGER NOT NULL DEFAULT 0;
UPDATE payments SET redeems_quote = 1 WHERE state <> 'failed' AND receipt IN (SELECT digest FROM quotes);
DROP INDEX payments_by_receipt;
CREATE UNIQUE INDEX payments_by_quote ON payments (receipt) WHERE redeems_quote = 1 AND state <> 'failed';
`;

const REVENUE = `
-- Settled amounts by hour, written in the transaction that settles: summing payments takes seconds at a million. An amount
-- is high * 10^9 + low, because it may have 20 digits.
CREATE TABLE revenue_hours (
  hour     INTEGER NOT NULL,
  network  TEXT NOT NULL COLLATE NOCASE,
  asset    TEXT NOT NULL COLLATE NOCASE,
  symbol   TEXT NOT NULL,
  high     INTEGER NOT NULL,
  low      INTEGER NOT NULL,
  payments INTEGER NOT NULL,
  PRIMARY KEY (hour, network, asset, symbol)
) STRICT, WITHOUT ROWID;
INSERT INTO revenue_hours
  SELECT updated_at / 3600000, network, asset, symbol,
         sum(CAST(substr(amount, 1, max(0, length(amount) - 9)) AS INTEGER)),
         sum(CAST(substr(amount, -9) AS INTEGER)), count(*)
    FROM payments WHERE state = 'settled' GROUP BY 1, 2, 3, 4;
CREATE TRIGGER payments_revenue AFTER UPDATE OF state ON payments
  WHEN NEW.state = 'settled' AND OLD.state <> 'settled'
BEGIN
  INSERT INTO revenue_hours VALUES (
    NEW.updated_at / 3600000, NEW.network, NEW.asset, NEW.symbol,
    CAST(substr(NEW.amount, 1, max(0, length(NEW.amount) - 9)) AS INTEGER),
    CAST(substr(NEW.amount, -9) AS INTEGER), 1)
  ON CONFLICT (hour, network, asset, symbol) DO UPDATE
    SET high = high + excluded.high, low = low + excluded.low, payments = payments + 1;
END;
`;

const WATCHED = `
-- JSON of who closed a payment that could not be decided, how, when and why.
ALTER TABLE payments ADD COLUMN closed TEXT;
-- Decided payments that the chain may still contradict. The body of a failed one's JobCall is kept as long.
CREATE TABLE watched_payments (
  call_id INTEGER PRIMARY KEY,
  since   INTEGER NOT NULL
) STRICT;
CREATE INDEX watched_payments_by_time ON watched_payments (since);
`;

/** Migrations from each version to the next; the first makes all tables of a new file. */
export const MIGRATIONS: readonly string[] = [
  FIRST,
  OFFERS_BY_JOB_AND_QUOTES,
  DELIVERIES,
  SECRETS,
  UNDECIDED,
  QUOTES_SHARED,
  REVENUE,
  WATCHED,
];
