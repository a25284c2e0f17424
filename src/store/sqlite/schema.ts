import { BOOKS } from "./books-tables.ts";
import { BY_USE, PAYMENTS_REVENUE, REFUNDS_OWED } from "./by-use-tables.ts";
import { CALLBACKS, REFUND_CALLBACKS } from "./callback-tables.ts";
import { FIRST_TABLES } from "./first-tables.ts";
import { REFUSED_PAYMENTS } from "./refused-payment-table.ts";

/*
 * The tables, as migrations. A released migration is never edited: a file keeps the number of its last one in
 * `user_version`, and a file of a newer jobgate is refused, not damaged.
 *
 * - u64 values are TEXT: SQLite's integers are signed.
 * - Times are Unix milliseconds unless the name says seconds.
 * - job_calls holds only what is not finished, and no bodies, so that claims touch few pages.
 */

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
${PAYMENTS_REVENUE}`;

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

const IDENTIFIERS = `
-- Identifier that the payer chose for all payments of one purchase: at most one of them has not failed.
ALTER TABLE payments ADD COLUMN payment_id TEXT;
CREATE UNIQUE INDEX payments_by_identifier ON payments (payer, payment_id)
  WHERE payment_id IS NOT NULL AND state <> 'failed';
`;

const FAILURE_REASONS = `
-- Why a paid call failed, once the operator dropped its dead letter: its buyer may still ask.
ALTER TABLE results ADD COLUMN reason TEXT;
`;

const SETTLER = `
-- Name of the facilitator that the payment is sent to.
ALTER TABLE payments ADD COLUMN facilitator TEXT;

-- Last nonce that an account has signed with. Outlives the transactions: no nonce is given twice.
CREATE TABLE settler_accounts (
  network    TEXT NOT NULL,
  account    TEXT NOT NULL,
  last_nonce INTEGER NOT NULL,
  PRIMARY KEY (network, account)
) STRICT, WITHOUT ROWID;

-- Transactions with which jobgate settles payments itself, until a day after their end.
CREATE TABLE settler_transactions (
  id                INTEGER PRIMARY KEY AUTOINCREMENT,
  network           TEXT NOT NULL,
  reference         TEXT NOT NULL,
  state             TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'sent', 'succeeded', 'reverted', 'dropped')),
  to_address        TEXT NOT NULL,
  data              TEXT NOT NULL,
  valid_before_secs INTEGER,
  account           TEXT,
  nonce             INTEGER,
  raw               TEXT,
  hash              TEXT,
  -- JSON array of the hashes of replaced bytes.
  earlier_hashes    TEXT NOT NULL DEFAULT '[]',
  signed_at         INTEGER,
  mined_hash        TEXT,
  block_number      TEXT,
  reason            TEXT,
  queued_at         INTEGER NOT NULL,
  finished_at       INTEGER,
  UNIQUE (network, reference),
  UNIQUE (network, account, nonce)
) STRICT;
CREATE INDEX settler_transactions_open ON settler_transactions (network, state, id) WHERE state IN ('queued', 'sent');
CREATE INDEX settler_transactions_finished ON settler_transactions (finished_at) WHERE finished_at IS NOT NULL;
`;

const CALL_LISTS = `
-- When the lease was given; absent before the first one and after it ended.
ALTER TABLE job_calls ADD COLUMN claimed_at INTEGER;
-- JSON array of the latest steps that a later one hides: deliveries without success, revivals of a dead letter.
ALTER TABLE job_calls ADD COLUMN history TEXT;
-- Bytes of encoded before the body: the metadata.
ALTER TABLE job_bodies ADD COLUMN head_bytes INTEGER;

-- How every call ended, for the operator's lists. What paid ones gave is in results, for their clients. The head is the
-- call without its body.
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
  subscriber  TEXT,
  claimed_at  INTEGER,
  history     TEXT,
  head        BLOB
) STRICT;
INSERT INTO finished_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at, finished_at, reason)
  SELECT call_id, 'x402', CAST(job_index AS TEXT), service_id, results.state, attempt, enqueued_at, finished_at, results.reason
    FROM results JOIN payments USING (call_id);
CREATE INDEX finished_calls_by_job ON finished_calls (job_id);
CREATE INDEX finished_calls_failed ON finished_calls (call_id) WHERE state = 'failed';

-- Lists of payments.
CREATE INDEX payments_by_payer ON payments (payer, call_id);
CREATE INDEX payments_by_job   ON payments (job_index, call_id);
`;

const DEAD_LETTER_GROUPS = `
-- Beginning of dead_reason, by which dead letters are grouped. Written beside it: an index with a generated column is not
-- covering.
ALTER TABLE job_calls ADD COLUMN short_reason TEXT;
UPDATE job_calls SET short_reason = substr(dead_reason, 1, 200) WHERE state = 'dead';
-- Has all columns that counting the groups needs.
CREATE INDEX job_calls_dead_groups
  ON job_calls (origin, service_id, job_id, short_reason, call_id, dead_at) WHERE state = 'dead';
`;

const REFUNDS = `
-- Promise to the buyer of a job that fails, as it was when he paid.
ALTER TABLE payments ADD COLUMN on_failure TEXT NOT NULL DEFAULT 'keep' CHECK (on_failure IN ('keep', 'refund', 'ask'));

-- Money to give back for paid calls that are dead letters. A call that was retried instead has a cancelled one.
CREATE TABLE refunds (
  call_id    INTEGER PRIMARY KEY,
  state      TEXT NOT NULL
             CHECK (state IN ('owed', 'sending', 'refunded', 'refund_failed', 'declined', 'cancelled')),
  -- Nobody has to be asked, or the operator approved.
  is_approved INTEGER NOT NULL,
  network    TEXT NOT NULL,
  asset      TEXT NOT NULL,
  symbol     TEXT NOT NULL,
  payer      TEXT NOT NULL,
  amount     TEXT NOT NULL,
  -- Number of the transaction that may move the money: a new one is made only after the last one has certainly failed.
  attempt    INTEGER NOT NULL DEFAULT 1,
  -- Reference of that transaction, once it was queued.
  reference  TEXT UNIQUE,
  -- Hash under which it was mined.
  hash       TEXT,
  reason     TEXT,
  -- JSON of who approved or declined it, when and why.
  decision   TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX refunds_open ON refunds (network, state, call_id) WHERE state IN ('owed', 'sending');
CREATE INDEX refunds_by_state ON refunds (state, call_id);

-- Triggers, so that no way to make a dead letter, and none to take one back, can forget the money.
${REFUNDS_OWED}CREATE TRIGGER refunds_cancelled AFTER UPDATE OF state ON job_calls WHEN OLD.state = 'dead' AND NEW.state <> 'dead'
BEGIN
  SELECT RAISE(ABORT, 'the refund of this JobCall is under way')
    WHERE EXISTS (SELECT 1 FROM refunds
                   WHERE call_id = NEW.call_id AND state IN ('sending', 'refunded', 'refund_failed'));
  UPDATE refunds SET state = 'cancelled' WHERE call_id = NEW.call_id;
END;
`;

const RETENTION = `
-- Counts of entries that were pruned, so that the totals still balance: settled and failed payments, done and dead calls.
CREATE TABLE pruned (
  name TEXT PRIMARY KEY,
  n    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`;

const GROUP_KEYS = `
-- Groups of dead letters by one column (origin, service, job and the beginning of the reason, with blanks between them): counting
-- them by four columns takes twice as long.
DROP INDEX job_calls_dead_groups;
ALTER TABLE job_calls RENAME COLUMN short_reason TO dead_group;
UPDATE job_calls SET dead_group = origin || ' ' || service_id || ' ' || job_id || ' ' || dead_group WHERE state = 'dead';
CREATE INDEX job_calls_dead_groups ON job_calls (dead_group, call_id, dead_at) WHERE state = 'dead';
`;

const ADOPTED_PAYMENTS = `
-- Payments that the chain shows and a restored copy lacks. Each gets a row of payments once its buyer sends it again.
CREATE TABLE adopted_payments (
  payer      TEXT NOT NULL,
  nonce      TEXT NOT NULL,
  network    TEXT NOT NULL,
  asset      TEXT NOT NULL,
  -- JSON of amount, recipient, transaction, and who adopted it and why.
  adopted    TEXT NOT NULL,
  adopted_at INTEGER NOT NULL,
  PRIMARY KEY (payer, nonce, network, asset)
) STRICT, WITHOUT ROWID;
-- Once its payment is forgotten, an adoption must not sell a job again.
CREATE TRIGGER adoptions_forgotten AFTER DELETE ON payments
BEGIN
  DELETE FROM adopted_payments
   WHERE payer = OLD.payer AND nonce = OLD.nonce AND network = OLD.network AND asset = OLD.asset;
END;
`;

/** Migrations from each version to the next; the first makes all tables of a new file. */
export const MIGRATIONS: readonly string[] = [
  FIRST_TABLES,
  OFFERS_BY_JOB_AND_QUOTES,
  DELIVERIES,
  SECRETS,
  UNDECIDED,
  QUOTES_SHARED,
  REVENUE,
  WATCHED,
  IDENTIFIERS,
  FAILURE_REASONS,
  SETTLER,
  CALL_LISTS,
  DEAD_LETTER_GROUPS,
  REFUNDS,
  RETENTION,
  BY_USE,
  GROUP_KEYS,
  BOOKS,
  CALLBACKS,
  REFUND_CALLBACKS,
  ADOPTED_PAYMENTS,
  REFUSED_PAYMENTS,
];
