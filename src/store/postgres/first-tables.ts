/** Tables of the first version, which later migrations change. Conventions are in `schema.ts`. */
export const FIRST_TABLES = `
-- Not an identity column: ids are drawn before their rows are written. 2^53 - 1 is the last exact number in JSON.
CREATE SEQUENCE jobgate.call_ids MAXVALUE 9007199254740991;

-- held: waits for its payment · ready · leased, until visible_at · delayed: retried, from visible_at · dead
CREATE TABLE jobgate.job_calls (
  call_id          bigint PRIMARY KEY,
  origin           text NOT NULL,
  job_id           text NOT NULL,
  service_id       text NOT NULL,
  state            text NOT NULL CHECK (state IN ('held', 'ready', 'leased', 'delayed', 'dead')),
  visible_at       bigint,
  attempts         bigint NOT NULL DEFAULT 0,
  -- Attempts that do not count towards max_attempts.
  forgiven         bigint NOT NULL DEFAULT 0,
  lease_token      text,
  subscriber       text,
  -- Progress that the runner reported with its lease.
  progress_percent bigint,
  progress_text    text,
  enqueued_at      bigint NOT NULL,
  dead_at          bigint,
  dead_reason      text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1);
CREATE INDEX job_calls_ready        ON jobgate.job_calls (call_id)             WHERE state = 'ready';
CREATE INDEX job_calls_ready_by_job ON jobgate.job_calls (job_id, call_id)     WHERE state = 'ready';
CREATE INDEX job_calls_waiting      ON jobgate.job_calls (visible_at, call_id) WHERE state IN ('leased', 'delayed');
CREATE INDEX job_calls_dead         ON jobgate.job_calls (call_id)             WHERE state = 'dead';

CREATE TABLE jobgate.job_bodies (
  call_id bigint PRIMARY KEY,
  encoded bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- How many rows of job_calls are not dead letters is the sum of n: counting them for each batch would cost more than
-- the batch. Many rows, so that batches that run at the same time do not wait for each other.
CREATE TABLE jobgate.pending (
  slot int PRIMARY KEY,
  n    bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 500);
INSERT INTO jobgate.pending SELECT slot, 0 FROM generate_series(1, 64) AS slot;

-- Recently committed batches, to look up the outcome of an unanswered COMMIT.
CREATE TABLE jobgate.batches (
  id           uuid PRIMARY KEY,
  -- Written by who looked it up and did not find it: it can no longer be committed.
  is_abandoned boolean NOT NULL,
  committed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX batches_by_age ON jobgate.batches (committed_at);

CREATE TABLE jobgate.payments (
  network                 text NOT NULL,
  asset                   text NOT NULL,
  payer                   text NOT NULL,
  nonce                   text NOT NULL,
  state                   text NOT NULL CHECK (state IN ('intent', 'settled', 'failed', 'unresolved')),
  call_id                 bigint NOT NULL UNIQUE,
  service_id              text NOT NULL,
  job_index               bigint NOT NULL,
  fingerprint             text NOT NULL UNIQUE,
  body_hash               text NOT NULL,
  x402_version            int NOT NULL,
  payload                 text NOT NULL,
  requirements            text NOT NULL,
  transfer_method         text NOT NULL,
  pay_to                  text NOT NULL,
  amount                  text NOT NULL,
  symbol                  text NOT NULL,
  price_wei               text NOT NULL,
  valid_before_secs       bigint NOT NULL,
  receipt                 text NOT NULL,
  from_block              text,
  caller                  text,
  caller_service_id       text,
  caller_job_index        bigint,
  caller_nonce            text,
  caller_expires_at_secs  bigint,
  settlement              text,
  reason                  text,
  created_at              bigint NOT NULL,
  updated_at              bigint NOT NULL,
  PRIMARY KEY (network, asset, payer, nonce)
);
CREATE INDEX payments_by_state ON jobgate.payments (state, call_id);
-- A receipt is one payment's, and so a quote is paid once. One that was certainly not paid leaves it free.
CREATE UNIQUE INDEX payments_by_receipt ON jobgate.payments (receipt) WHERE state <> 'failed';
-- Settled payments, by time.
CREATE INDEX payments_settled ON jobgate.payments (updated_at) WHERE state = 'settled';

CREATE TABLE jobgate.caller_nonces (
  caller          text NOT NULL,
  service_id      text NOT NULL,
  job_index       bigint NOT NULL,
  nonce           text NOT NULL,
  expires_at_secs bigint NOT NULL,
  -- The payment that used it up.
  call_id         bigint NOT NULL,
  PRIMARY KEY (caller, service_id, job_index, nonce)
);
CREATE INDEX caller_nonces_expiry ON jobgate.caller_nonces (expires_at_secs);

-- Keys that identify repeated webhook deliveries, until the endpoint's window ends.
CREATE TABLE jobgate.deliveries (
  key        text PRIMARY KEY,
  body_hash  text NOT NULL,
  call_id    bigint NOT NULL,
  expires_at bigint NOT NULL
);
CREATE INDEX deliveries_by_end ON jobgate.deliveries (expires_at);

-- How paid calls ended. A call is in job_calls or here, never in both.
CREATE TABLE jobgate.results (
  call_id      bigint PRIMARY KEY,
  state        text NOT NULL CHECK (state IN ('succeeded', 'failed')),
  attempt      bigint NOT NULL,
  enqueued_at  bigint NOT NULL,
  finished_at  bigint NOT NULL,
  body         bytea,
  content_type text
);
CREATE INDEX results_by_state ON jobgate.results (state);

-- Offers made to clients, by job, while they are payable.
CREATE TABLE jobgate.offers (
  id          text PRIMARY KEY,
  service_id  text NOT NULL,
  job_index   bigint NOT NULL,
  offer       text NOT NULL,
  valid_until bigint NOT NULL
);
CREATE INDEX offers_by_job ON jobgate.offers (service_id, job_index);
CREATE INDEX offers_by_end ON jobgate.offers (valid_until);

-- Signed quotes that can be paid, by their EIP-712 digest.
CREATE TABLE jobgate.quotes (
  digest     text PRIMARY KEY,
  quote      text NOT NULL,
  expires_at bigint NOT NULL
);
CREATE INDEX quotes_by_end ON jobgate.quotes (expires_at);
`;
