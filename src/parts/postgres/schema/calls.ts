/** JobCalls, their bodies, and their outcomes. */
export const CALLS = `
-- Not an identity column: ids are drawn before their rows are written. 2^53 - 1 is the last exact number in JSON.
CREATE SEQUENCE jobgate.call_ids MAXVALUE 9007199254740991;

-- JobCalls that are not finished.
-- held: waits for its payment, or for another JobCall of its key · ready · leased, until visible_at · delayed: retried, from visible_at · dead
CREATE TABLE jobgate.job_calls (
  call_id          bigint PRIMARY KEY,
  origin           text NOT NULL,
  job_id           text NOT NULL,
  service_id       text NOT NULL,
  state            text NOT NULL CHECK (state IN ('held', 'ready', 'leased', 'delayed', 'dead')),
  visible_at       bigint,
  attempts         bigint NOT NULL DEFAULT 0,
  -- Attempts that are not compared with max_attempts.
  forgiven         bigint NOT NULL DEFAULT 0,
  lease_token      text,
  subscriber       text,
  -- When the lease was given; absent before the first lease and after it ended.
  claimed_at       bigint,
  -- Progress that the runner reported with its lease.
  progress_percent bigint,
  progress_text    text,
  -- Ceiling and charge of a JobCall of a deferred payment, next to the columns that are updated together with them.
  ceiling          text,
  min_charge       text,
  charge_so_far    text,
  -- Array of the latest steps that a later step hides: deliveries without success, revivals of a dead letter.
  history          jsonb,
  enqueued_at      bigint NOT NULL,
  dead_at          bigint,
  dead_reason      text,
  -- Key of an ordered JobCall, after its owner and a line break. Only one JobCall of a key is ready, leased or delayed.
  order_key        text COLLATE "C",
  -- 1 if its latest lease counts towards a limit of its job.
  limited          bigint,
  -- Group of a dead letter: origin, service, job and the beginning of the reason with # for each number, with blanks between
  -- them. Counting by four columns takes twice as long.
  dead_group       text COLLATE "C"
    GENERATED ALWAYS AS (origin || ' ' || service_id || ' ' || job_id || ' '
                         || substr(regexp_replace(dead_reason, '[0-9]+', '#', 'g'), 1, 200)) STORED
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1);
CREATE INDEX job_calls_ready        ON jobgate.job_calls (call_id)             WHERE state = 'ready';
CREATE INDEX job_calls_ready_by_job ON jobgate.job_calls (job_id, call_id)     WHERE state = 'ready';
CREATE INDEX job_calls_waiting      ON jobgate.job_calls (visible_at, call_id) WHERE state IN ('leased', 'delayed');
CREATE INDEX job_calls_dead         ON jobgate.job_calls (call_id)             WHERE state = 'dead';
CREATE INDEX job_calls_limited      ON jobgate.job_calls (job_id)              WHERE state = 'leased' AND limited = 1;
CREATE INDEX job_calls_ordered      ON jobgate.job_calls (order_key, call_id)  WHERE state = 'held' AND order_key IS NOT NULL;
-- Has all columns that counting the groups needs.
CREATE INDEX job_calls_dead_groups  ON jobgate.job_calls (dead_group, call_id, dead_at) WHERE state = 'dead';

-- Encoded JobCalls. Each is kept as long as its row of job_calls, or its watched payment.
CREATE TABLE jobgate.job_bodies (
  call_id    bigint PRIMARY KEY,
  -- Bytes of encoded before the body: the metadata.
  head_bytes int NOT NULL,
  encoded    bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- How paid calls ended, for their clients. A call is in job_calls or here, never in both.
CREATE TABLE jobgate.results (
  call_id      bigint PRIMARY KEY,
  state        text NOT NULL CHECK (state IN ('succeeded', 'failed')),
  attempt      bigint NOT NULL,
  enqueued_at  bigint NOT NULL,
  finished_at  bigint NOT NULL,
  -- Why the call failed, once the operator dropped its dead letter. A call that failed with a status has none.
  reason       text,
  -- What a call that is charged after it ran is charged.
  charge       text,
  -- NULL without a result. Empty once the result is forgotten: no bytes are left then.
  content_type text,
  -- HTTP status that the runner named, and a JSON array of the names and values of its headers.
  status       int,
  headers      text,
  -- Size of a result in chunks, which has no body.
  stored_bytes bigint,
  body         bytea
);
CREATE INDEX results_failed ON jobgate.results (call_id) WHERE state = 'failed';

-- Results that are too large for one write: each delivery has its own chunks, in the order of their places. Those of the
-- delivery that was acked are the result, whose size results.stored_bytes has.
CREATE TABLE jobgate.result_chunks (
  call_id bigint NOT NULL,
  attempt bigint NOT NULL,
  place   int NOT NULL,
  bytes   bytea NOT NULL,
  PRIMARY KEY (call_id, attempt, place)
);

-- How every call ended, for the operator's lists.
CREATE TABLE jobgate.finished_calls (
  call_id     bigint PRIMARY KEY,
  origin      text NOT NULL,
  job_id      text NOT NULL,
  service_id  text NOT NULL,
  state       text NOT NULL CHECK (state IN ('succeeded', 'failed')),
  attempts    bigint NOT NULL,
  enqueued_at bigint NOT NULL,
  finished_at bigint NOT NULL,
  reason      text,
  -- HTTP status of the result, if the runner named one.
  status      int,
  subscriber  text,
  claimed_at  bigint,
  history     jsonb,
  -- The encoded call without its body; absent if its row of job_bodies was lost.
  head        bytea
);
CREATE INDEX finished_calls_by_job ON jobgate.finished_calls (job_id, call_id);
CREATE INDEX finished_calls_failed  ON jobgate.finished_calls (call_id) WHERE state = 'failed' AND status IS NOT NULL;
CREATE INDEX finished_calls_dropped ON jobgate.finished_calls (call_id) WHERE state = 'failed' AND status IS NULL;
`;
