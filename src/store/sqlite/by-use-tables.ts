/** Sums settled amounts by hour. Written again when payments were moved into a new table, as PAYMENT_CALLBACKS has to be. */
export const PAYMENTS_REVENUE = `CREATE TRIGGER payments_revenue AFTER UPDATE OF state ON payments
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

/** Owes the money for a dead letter. Written again like {@link PAYMENTS_REVENUE}. */
export const REFUNDS_OWED = `CREATE TRIGGER refunds_owed AFTER UPDATE OF state ON job_calls
  WHEN NEW.state = 'dead' AND OLD.state <> 'dead' AND NEW.origin = 'x402'
BEGIN
  INSERT INTO refunds (call_id, state, is_approved, network, asset, symbol, payer, amount, created_at, updated_at)
    -- A payment that the operator closed as paid is not proven: he is asked.
    SELECT NEW.call_id, 'owed', on_failure = 'refund' AND closed IS NULL, network, asset, symbol, payer, amount,
           NEW.dead_at, NEW.dead_at
      FROM payments WHERE call_id = NEW.call_id AND on_failure <> 'keep'
  ON CONFLICT (call_id) DO UPDATE
    SET state = 'owed', is_approved = excluded.is_approved, attempt = attempt + (reference IS NOT NULL),
        reference = NULL, hash = NULL, reason = NULL, decision = NULL,
        created_at = excluded.created_at, updated_at = excluded.updated_at
    WHERE state = 'cancelled';
END;
`;

const COLUMNS = `network, asset, payer, nonce, state, call_id, service_id, job_index, fingerprint, body_hash, x402_version,
  payload, requirements, transfer_method, pay_to, amount, symbol, price_wei, valid_before_secs, receipt, from_block, caller,
  caller_service_id, caller_job_index, caller_nonce, caller_expires_at_secs, settlement, reason, created_at, updated_at,
  redeems_quote, closed, payment_id, facilitator, on_failure`;

/** Migration for payments by use, whose JobCalls run before any money moves. */
export const BY_USE = `
-- Payments have more states. SQLite cannot change a CHECK, so they move into a new table.
DROP TRIGGER refunds_owed;
CREATE TABLE new_payments (
  network                 TEXT NOT NULL COLLATE NOCASE,
  asset                   TEXT NOT NULL COLLATE NOCASE,
  payer                   TEXT NOT NULL COLLATE NOCASE,
  nonce                   TEXT NOT NULL COLLATE NOCASE,
  state                   TEXT NOT NULL
                          CHECK (state IN ('intent', 'settled', 'failed', 'unresolved', 'authorized', 'settling', 'released')),
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
  -- With a ceiling: the ceiling until the charge is known, and then the charge.
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
  redeems_quote           INTEGER NOT NULL DEFAULT 0,
  closed                  TEXT,
  payment_id              TEXT,
  facilitator             TEXT,
  on_failure              TEXT NOT NULL DEFAULT 'keep' CHECK (on_failure IN ('keep', 'refund', 'ask')),
  -- Most that can be charged for a job that is paid by use.
  ceiling                 TEXT,
  PRIMARY KEY (network, asset, payer, nonce)
) STRICT;
INSERT INTO new_payments (${COLUMNS}) SELECT ${COLUMNS} FROM payments;
DROP TABLE payments;
ALTER TABLE new_payments RENAME TO payments;
CREATE INDEX payments_by_state ON payments (state, call_id);
CREATE INDEX payments_settled  ON payments (updated_at) WHERE state = 'settled';
CREATE INDEX payments_undecided          ON payments (created_at)        WHERE state = 'intent';
CREATE INDEX payments_undecided_by_payer ON payments (payer, created_at) WHERE state = 'intent';
CREATE UNIQUE INDEX payments_by_quote ON payments (receipt) WHERE redeems_quote = 1 AND state <> 'failed';
CREATE UNIQUE INDEX payments_by_identifier ON payments (payer, payment_id)
  WHERE payment_id IS NOT NULL AND state <> 'failed';
CREATE INDEX payments_by_payer ON payments (payer, call_id);
CREATE INDEX payments_by_job   ON payments (job_index, call_id);
CREATE INDEX payments_authorized      ON payments (valid_before_secs) WHERE state = 'authorized';
CREATE INDEX payments_by_use_of_payer ON payments (payer) WHERE state IN ('authorized', 'settling');
CREATE INDEX payments_by_use          ON payments (state, call_id) WHERE ceiling IS NOT NULL;
${PAYMENTS_REVENUE}
${REFUNDS_OWED}

-- What a JobCall that is paid by use may and shall be charged, beside the rows that change with it.
ALTER TABLE job_calls ADD COLUMN ceiling       TEXT;
ALTER TABLE job_calls ADD COLUMN min_charge    TEXT;
ALTER TABLE job_calls ADD COLUMN charge_so_far TEXT;
ALTER TABLE results   ADD COLUMN charge        TEXT;

-- Triggers, so that no way to finish a JobCall can forget its payment.
CREATE TRIGGER payments_charged AFTER INSERT ON results WHEN NEW.charge IS NOT NULL
BEGIN
  UPDATE payments SET state = iif(NEW.charge = '0', 'released', 'settling'), amount = NEW.charge, updated_at = NEW.finished_at
   WHERE call_id = NEW.call_id AND state = 'authorized';
END;
CREATE TRIGGER payments_released AFTER UPDATE OF state ON job_calls
  WHEN NEW.state = 'dead' AND OLD.state <> 'dead' AND NEW.ceiling IS NOT NULL
BEGIN
  UPDATE payments SET state = 'released', amount = '0', reason = substr(NEW.dead_reason, 1, 500), updated_at = NEW.dead_at
   WHERE call_id = NEW.call_id AND state = 'authorized';
END;
`;
