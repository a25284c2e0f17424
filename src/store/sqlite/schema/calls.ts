/** JobCalls, their bodies, and their outcomes. */
export const CALLS = `
-- JobCalls that are not finished.
-- held: waits for its payment, or for another JobCall of its key · ready · leased, until visible_at · delayed: retried, from visible_at · dead
CREATE TABLE job_calls (
  -- AUTOINCREMENT: an id is never given twice, not even after its row is gone.
  call_id          INTEGER PRIMARY KEY AUTOINCREMENT,
  origin           TEXT NOT NULL,
  job_id           TEXT NOT NULL,
  service_id       TEXT NOT NULL,
  state            TEXT NOT NULL CHECK (state IN ('held', 'ready', 'leased', 'delayed', 'dead')),
  visible_at       INTEGER,
  attempts         INTEGER NOT NULL DEFAULT 0,
  -- Attempts that are not compared with max_attempts.
  forgiven         INTEGER NOT NULL DEFAULT 0,
  lease_token      TEXT,
  subscriber       TEXT,
  -- When the lease was given; absent before the first lease and after it ended.
  claimed_at       INTEGER,
  -- Progress that the runner reported with its lease.
  progress_percent INTEGER,
  progress_text    TEXT,
  -- Ceiling and charge of a JobCall of a deferred payment, next to the columns that are updated together with them.
  ceiling          TEXT,
  min_charge       TEXT,
  charge_so_far    TEXT,
  -- JSON array of the latest steps that a later step hides: deliveries without success, revivals of a dead letter.
  history          TEXT,
  enqueued_at      INTEGER NOT NULL,
  dead_at          INTEGER,
  dead_reason      TEXT,
  -- Key of an ordered JobCall, after its owner and a line break. Only one JobCall of a key is ready, leased or delayed.
  order_key        TEXT,
  -- 1 if its latest lease counts towards a limit of its job.
  limited          INTEGER,
  -- Group of a dead letter: origin, service, job and the beginning of the reason with # for each number, with blanks between them. Counting by four
  -- columns takes twice as long, and an index with a generated column is not covering.
  dead_group       TEXT
) STRICT;
CREATE INDEX job_calls_ready        ON job_calls (call_id)             WHERE state = 'ready';
CREATE INDEX job_calls_ready_by_job ON job_calls (job_id, call_id)     WHERE state = 'ready';
CREATE INDEX job_calls_waiting      ON job_calls (visible_at, call_id) WHERE state IN ('leased', 'delayed');
CREATE INDEX job_calls_dead         ON job_calls (call_id)             WHERE state = 'dead';
CREATE INDEX job_calls_limited      ON job_calls (job_id)              WHERE state = 'leased' AND limited = 1;
CREATE INDEX job_calls_ordered      ON job_calls (order_key, call_id)  WHERE state = 'held' AND order_key IS NOT NULL;
-- Has all columns that counting the groups needs.
CREATE INDEX job_calls_dead_groups  ON job_calls (dead_group, call_id, dead_at) WHERE state = 'dead';

-- Encoded JobCalls. Each is kept as long as its row of job_calls, or its watched payment.
CREATE TABLE job_bodies (
  call_id    INTEGER PRIMARY KEY,
  -- Bytes of encoded before the body: the metadata.
  head_bytes INTEGER NOT NULL,
  encoded    BLOB NOT NULL
) STRICT;

-- How paid calls ended, for their clients. A call is in job_calls or here, never in both.
CREATE TABLE results (
  call_id      INTEGER PRIMARY KEY,
  state        TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
  attempt      INTEGER NOT NULL,
  enqueued_at  INTEGER NOT NULL,
  finished_at  INTEGER NOT NULL,
  -- Why the call failed, once the operator dropped its dead letter. A call that failed with a status has none.
  reason       TEXT,
  -- What a call that is charged after it ran is charged.
  charge       TEXT,
  -- NULL without a result. Empty once the result is forgotten: no bytes are left then.
  content_type TEXT,
  -- HTTP status that the runner named, and a JSON array of the names and values of its headers.
  status       INTEGER,
  headers      TEXT,
  -- Size of a result in chunks, which has no body.
  stored_bytes INTEGER,
  body         BLOB
) STRICT;
CREATE INDEX results_failed ON results (call_id) WHERE state = 'failed';

-- Results that are too large for one write: each delivery has its own chunks, in the order of their places. Those of the
-- delivery that was acked are the result, whose size results.stored_bytes has.
CREATE TABLE result_chunks (
  call_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  place   INTEGER NOT NULL,
  bytes   BLOB NOT NULL,
  PRIMARY KEY (call_id, attempt, place)
) STRICT;

-- How every call ended, for the operator's lists.
CREATE TABLE finished_calls (
  call_id     INTEGER PRIMARY KEY,
  origin      TEXT NOT NULL,
  job_id      TEXT NOT NULL,
  service_id  TEXT NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('succeeded', 'failed')),
  attempts    INTEGER NOT NULL,
  enqueued_at INTEGER NOT NULL,
  finished_at INTEGER NOT NULL,
  reason      TEXT,
  -- HTTP status of the result, if the runner named one.
  status      INTEGER,
  subscriber  TEXT,
  claimed_at  INTEGER,
  history     TEXT,
  -- The encoded call without its body; absent if its row of job_bodies was lost.
  head        BLOB
) STRICT;
CREATE INDEX finished_calls_by_job ON finished_calls (job_id);
CREATE INDEX finished_calls_failed  ON finished_calls (call_id) WHERE state = 'failed' AND status IS NOT NULL;
CREATE INDEX finished_calls_dropped ON finished_calls (call_id) WHERE state = 'failed' AND status IS NULL;
`;
