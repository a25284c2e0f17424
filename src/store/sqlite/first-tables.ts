/** Tables of the first version, which later migrations change. Conventions are in `schema.ts`. */
export const FIRST_TABLES = `
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
