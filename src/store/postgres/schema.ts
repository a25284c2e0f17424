import { BOOKS } from "./books-tables.ts";
import { CALLBACKS, REFUND_CALLBACKS } from "./callback-tables.ts";
import { FIRST_TABLES } from "./first-tables.ts";
import { REFUSED_PAYMENTS } from "./refused-payment-table.ts";

/*
 * The tables, as migrations. A released migration is never edited: the database keeps the number of its last one, and a
 * database of a newer jobgate is refused, not damaged.
 *
 * - u64 values are text: Postgres' integers are signed. u32 values are bigint for the same reason.
 * - Times are Unix milliseconds unless the name says seconds.
 * - Hex that is compared (a payment's key, a caller) is written in lower case.
 * - job_calls holds only what is not finished, and no bodies: each update writes a whole row anew.
 */

const SECRETS = `
-- Random secrets that stay the same over restarts and replicas: access tokens are derived from one.
CREATE TABLE jobgate.secrets (
  name   text PRIMARY KEY,
  secret text NOT NULL
);
`;

const UNDECIDED = `
-- Undecided payments by age, of everyone and of one payer.
CREATE INDEX payments_undecided          ON jobgate.payments (created_at)        WHERE state = 'intent';
CREATE INDEX payments_undecided_by_payer ON jobgate.payments (payer, created_at) WHERE state = 'intent';
`;

const QUOTES_SHARED = `
-- A quote that a client names is paid once, unless its payment failed. Buyers at one current price share its quote.
ALTER TABLE jobgate.payments ADD COLUMN redeems_quote int NOT NULL DEFAULT 0;
UPDATE jobgate.payments SET redeems_quote = 1 WHERE state <> 'failed' AND receipt IN (SELECT digest FROM jobgate.quotes);
DROP INDEX jobgate.payments_by_receipt;
CREATE UNIQUE INDEX payments_by_quote ON jobgate.payments (receipt) WHERE redeems_quote = 1 AND state <> 'failed';
`;

const REVENUE = `
-- Settled amounts by hour, written in the transaction that settles: summing payments takes seconds at a million. Each
-- connection has a row of its own (nearly: 64 slots), so that batches that run at the same time do not wait for each other.
LOCK TABLE jobgate.payments IN SHARE ROW EXCLUSIVE MODE;
CREATE TABLE jobgate.revenue_hours (
  hour     bigint NOT NULL,
  network  text NOT NULL,
  asset    text NOT NULL,
  symbol   text NOT NULL,
  slot     int NOT NULL,
  amount   numeric NOT NULL,
  payments bigint NOT NULL,
  PRIMARY KEY (hour, network, asset, symbol, slot)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500);
INSERT INTO jobgate.revenue_hours
  SELECT updated_at / 3600000, network, asset, symbol, 0, sum(amount::numeric), count(*)
    FROM jobgate.payments WHERE state = 'settled' GROUP BY 1, 2, 3, 4;
CREATE FUNCTION jobgate.add_revenue() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobgate.revenue_hours AS sums VALUES (
    NEW.updated_at / 3600000, NEW.network, NEW.asset, NEW.symbol, pg_backend_pid() % 64, NEW.amount::numeric, 1)
  ON CONFLICT (hour, network, asset, symbol, slot) DO UPDATE
    SET amount = sums.amount + excluded.amount, payments = sums.payments + 1;
  RETURN NULL;
END $$;
CREATE TRIGGER payments_revenue AFTER UPDATE OF state ON jobgate.payments FOR EACH ROW
  WHEN (NEW.state = 'settled' AND OLD.state <> 'settled') EXECUTE FUNCTION jobgate.add_revenue();
`;

const WATCHED = `
-- JSON of who closed a payment that could not be decided, how, when and why.
ALTER TABLE jobgate.payments ADD COLUMN closed text;
-- Decided payments that the chain may still contradict. The body of a failed one's JobCall is kept as long.
CREATE TABLE jobgate.watched_payments (
  call_id bigint PRIMARY KEY,
  since   bigint NOT NULL
);
CREATE INDEX watched_payments_by_time ON jobgate.watched_payments (since);
`;

const IDENTIFIERS = `
-- Identifier that the payer chose for all payments of one purchase: at most one of them has not failed.
ALTER TABLE jobgate.payments ADD COLUMN payment_id text;
CREATE UNIQUE INDEX payments_by_identifier ON jobgate.payments (payer, payment_id)
  WHERE payment_id IS NOT NULL AND state <> 'failed';
`;

const FAILURE_REASONS = `
-- Why a paid call failed, once the operator dropped its dead letter: its buyer may still ask.
ALTER TABLE jobgate.results ADD COLUMN reason text;
`;

const SETTLER = `
-- Name of the facilitator that the payment is sent to.
ALTER TABLE jobgate.payments ADD COLUMN facilitator text;

-- Replica that may send transactions on a network, until its lease ends.
CREATE TABLE jobgate.settler_leases (
  network    text PRIMARY KEY,
  owner      text NOT NULL,
  held_until bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500);

-- Last nonce that an account has signed with. Outlives the transactions: no nonce is given twice.
CREATE TABLE jobgate.settler_accounts (
  network    text NOT NULL,
  account    text NOT NULL,
  last_nonce bigint NOT NULL,
  PRIMARY KEY (network, account)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500);

-- Transactions with which jobgate settles payments itself, until a day after their end.
CREATE TABLE jobgate.settler_transactions (
  id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  network           text NOT NULL,
  reference         text NOT NULL,
  state             text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'sent', 'succeeded', 'reverted', 'dropped')),
  to_address        text NOT NULL,
  data              text NOT NULL,
  valid_before_secs bigint,
  account           text,
  nonce             bigint,
  raw               text,
  hash              text,
  -- JSON array of the hashes of replaced bytes.
  earlier_hashes    text NOT NULL DEFAULT '[]',
  signed_at         bigint,
  mined_hash        text,
  block_number      text,
  reason            text,
  queued_at         bigint NOT NULL,
  finished_at       bigint,
  UNIQUE (network, reference),
  UNIQUE (network, account, nonce)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1);
CREATE INDEX settler_transactions_open ON jobgate.settler_transactions (network, state, id)
  WHERE state IN ('queued', 'sent');
CREATE INDEX settler_transactions_finished ON jobgate.settler_transactions (finished_at) WHERE finished_at IS NOT NULL;
`;

const CALL_LISTS = `
-- When the lease was given; absent before the first one and after it ended.
ALTER TABLE jobgate.job_calls ADD COLUMN claimed_at bigint;
-- Array of the latest steps that a later one hides: deliveries without success, revivals of a dead letter.
ALTER TABLE jobgate.job_calls ADD COLUMN history jsonb;
-- Bytes of encoded before the body: the metadata.
ALTER TABLE jobgate.job_bodies ADD COLUMN head_bytes int;

-- How every call ended, for the operator's lists. What paid ones gave is in results, for their clients. The head is the
-- call without its body. A replica of an older version adds no rows.
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
  subscriber  text,
  claimed_at  bigint,
  history     jsonb,
  head        bytea
);
INSERT INTO jobgate.finished_calls
    (call_id, origin, job_id, service_id, state, attempts, enqueued_at, finished_at, reason)
  SELECT call_id, 'x402', job_index::text, service_id, results.state, attempt, enqueued_at, finished_at, results.reason
    FROM jobgate.results JOIN jobgate.payments USING (call_id);
CREATE INDEX finished_calls_by_job ON jobgate.finished_calls (job_id, call_id);
CREATE INDEX finished_calls_failed ON jobgate.finished_calls (call_id) WHERE state = 'failed';

-- Lists of payments.
CREATE INDEX payments_by_payer ON jobgate.payments (payer, call_id);
CREATE INDEX payments_by_job   ON jobgate.payments (job_index, call_id);
`;

const DEAD_LETTER_GROUPS = `
-- Beginning of dead_reason, by which dead letters are grouped: short enough for an index.
ALTER TABLE jobgate.job_calls ADD COLUMN short_reason text GENERATED ALWAYS AS (substr(dead_reason, 1, 200)) STORED;
-- Has all columns that counting the groups needs.
CREATE INDEX job_calls_dead_groups
  ON jobgate.job_calls (origin, service_id, job_id, short_reason, call_id, dead_at) WHERE state = 'dead';
`;

const REFUNDS = `
-- Promise to the buyer of a job that fails, as it was when he paid.
ALTER TABLE jobgate.payments ADD COLUMN on_failure text NOT NULL DEFAULT 'keep'
  CHECK (on_failure IN ('keep', 'refund', 'ask'));

-- Money to give back for paid calls that are dead letters. A call that was retried instead has a cancelled one.
CREATE TABLE jobgate.refunds (
  call_id     bigint PRIMARY KEY,
  state       text NOT NULL
              CHECK (state IN ('owed', 'sending', 'refunded', 'refund_failed', 'declined', 'cancelled')),
  -- Nobody has to be asked, or the operator approved.
  is_approved int NOT NULL,
  network     text NOT NULL,
  asset       text NOT NULL,
  symbol      text NOT NULL,
  payer       text NOT NULL,
  amount      text NOT NULL,
  -- Number of the transaction that may move the money: a new one is made only after the last one has certainly failed.
  attempt     bigint NOT NULL DEFAULT 1,
  -- Reference of that transaction, once it was queued.
  reference   text UNIQUE,
  -- Hash under which it was mined.
  hash        text,
  reason      text,
  -- JSON of who approved or declined it, when and why.
  decision    text,
  created_at  bigint NOT NULL,
  updated_at  bigint NOT NULL
);
CREATE INDEX refunds_open ON jobgate.refunds (network, state, call_id) WHERE state IN ('owed', 'sending');
CREATE INDEX refunds_by_state ON jobgate.refunds (state, call_id);

-- Triggers, so that no way to make a dead letter, and none to take one back, can forget the money: not even that of a
-- replica of an older version.
CREATE FUNCTION jobgate.owe_refund() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobgate.refunds AS refund
      (call_id, state, is_approved, network, asset, symbol, payer, amount, created_at, updated_at)
    -- A payment that the operator closed as paid is not proven: he is asked.
    SELECT NEW.call_id, 'owed', (on_failure = 'refund' AND closed IS NULL)::int, network, asset, symbol, payer, amount,
           NEW.dead_at, NEW.dead_at
      FROM jobgate.payments WHERE call_id = NEW.call_id AND on_failure <> 'keep'
  ON CONFLICT (call_id) DO UPDATE
    SET state = 'owed', is_approved = excluded.is_approved,
        attempt = refund.attempt + (refund.reference IS NOT NULL)::int,
        reference = NULL, hash = NULL, reason = NULL, decision = NULL,
        created_at = excluded.created_at, updated_at = excluded.updated_at
    WHERE refund.state = 'cancelled';
  RETURN NULL;
END $$;
CREATE TRIGGER refunds_owed AFTER UPDATE OF state ON jobgate.job_calls FOR EACH ROW
  WHEN (NEW.state = 'dead' AND OLD.state <> 'dead' AND NEW.origin = 'x402') EXECUTE FUNCTION jobgate.owe_refund();
CREATE FUNCTION jobgate.cancel_refund() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE jobgate.refunds SET state = 'cancelled' WHERE call_id = NEW.call_id AND state IN ('owed', 'declined');
  -- The second look sees what another transaction committed while this one waited for the row.
  IF EXISTS (SELECT FROM jobgate.refunds WHERE call_id = NEW.call_id AND state <> 'cancelled') THEN
    -- Run again, the batch sees it in time.
    RAISE EXCEPTION 'the refund of JobCall % is under way', NEW.call_id USING ERRCODE = 'serialization_failure';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER refunds_cancelled AFTER UPDATE OF state ON jobgate.job_calls FOR EACH ROW
  WHEN (OLD.state = 'dead' AND NEW.state <> 'dead') EXECUTE FUNCTION jobgate.cancel_refund();
`;

const RETENTION = `
-- Counts of entries that were pruned, so that the totals still balance: settled and failed payments, done and dead calls.
CREATE TABLE jobgate.pruned (
  name text PRIMARY KEY,
  n    bigint NOT NULL
);
`;

const BY_USE = `
-- Payments for jobs that run before any money moves.
ALTER TABLE jobgate.payments DROP CONSTRAINT payments_state_check, ADD CONSTRAINT payments_state_check
  CHECK (state IN ('intent', 'settled', 'failed', 'unresolved', 'authorized', 'settling', 'released')) NOT VALID;
-- Most that can be charged. amount is the same until the charge is known, and then the charge.
ALTER TABLE jobgate.payments ADD COLUMN ceiling text;
CREATE INDEX payments_authorized      ON jobgate.payments (valid_before_secs) WHERE state = 'authorized';
CREATE INDEX payments_by_use_of_payer ON jobgate.payments (payer) WHERE state IN ('authorized', 'settling');
CREATE INDEX payments_by_use          ON jobgate.payments (state, call_id) WHERE ceiling IS NOT NULL;

-- What a JobCall that is paid by use may and shall be charged, beside the rows that change with it.
ALTER TABLE jobgate.job_calls ADD COLUMN ceiling text, ADD COLUMN min_charge text, ADD COLUMN charge_so_far text;
ALTER TABLE jobgate.results ADD COLUMN charge text;

-- Triggers, so that no way to finish a JobCall can forget its payment.
CREATE FUNCTION jobgate.charge_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE jobgate.payments
     SET state = CASE NEW.charge WHEN '0' THEN 'released' ELSE 'settling' END, amount = NEW.charge,
         updated_at = NEW.finished_at
   WHERE call_id = NEW.call_id AND state = 'authorized';
  RETURN NULL;
END $$;
CREATE TRIGGER payments_charged AFTER INSERT ON jobgate.results FOR EACH ROW
  WHEN (NEW.charge IS NOT NULL) EXECUTE FUNCTION jobgate.charge_payment();
CREATE FUNCTION jobgate.release_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE jobgate.payments
     SET state = 'released', amount = '0', reason = substr(NEW.dead_reason, 1, 500), updated_at = NEW.dead_at
   WHERE call_id = NEW.call_id AND state = 'authorized';
  RETURN NULL;
END $$;
CREATE TRIGGER payments_released AFTER UPDATE OF state ON jobgate.job_calls FOR EACH ROW
  WHEN (NEW.state = 'dead' AND OLD.state <> 'dead' AND NEW.ceiling IS NOT NULL)
  EXECUTE FUNCTION jobgate.release_payment();
`;

const GROUP_KEYS = `
-- Groups of dead letters by one column (origin, service, job and the beginning of the reason, with blanks between them): counting
-- them by four columns takes twice as long.
DROP INDEX jobgate.job_calls_dead_groups;
ALTER TABLE jobgate.job_calls
  DROP COLUMN short_reason,
  ADD COLUMN dead_group text COLLATE "C"
    GENERATED ALWAYS AS (origin || ' ' || service_id || ' ' || job_id || ' ' || substr(dead_reason, 1, 200)) STORED;
CREATE INDEX job_calls_dead_groups ON jobgate.job_calls (dead_group, call_id, dead_at) WHERE state = 'dead';
`;

const ADOPTED_PAYMENTS = `
-- Payments that the chain shows and a restored copy lacks. Each gets a row of payments once its buyer sends it again.
CREATE TABLE jobgate.adopted_payments (
  payer      text NOT NULL,
  nonce      text NOT NULL,
  network    text NOT NULL,
  asset      text NOT NULL,
  -- JSON of amount, recipient, transaction, and who adopted it and why.
  adopted    text NOT NULL,
  adopted_at bigint NOT NULL,
  PRIMARY KEY (payer, nonce, network, asset)
);
-- Once its payment is forgotten, an adoption must not sell a job again.
CREATE FUNCTION jobgate.forget_adoption() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM jobgate.adopted_payments
   WHERE payer = OLD.payer AND nonce = OLD.nonce AND network = OLD.network AND asset = OLD.asset;
  RETURN NULL;
END $$;
CREATE TRIGGER adoptions_forgotten AFTER DELETE ON jobgate.payments FOR EACH ROW
  EXECUTE FUNCTION jobgate.forget_adoption();
`;

/** Migrations from each version to the next; the first makes all tables of a new database. */
export const MIGRATIONS: readonly string[] = [
  FIRST_TABLES,
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
