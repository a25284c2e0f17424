/** Refunds of paid calls that became dead letters. */
export const REFUNDS = `
-- Money to give back for paid calls that are dead letters. The refund of a call that was retried is cancelled.
CREATE TABLE refunds (
  call_id      INTEGER PRIMARY KEY,
  state        TEXT NOT NULL
               CHECK (state IN ('owed', 'sending', 'refunded', 'refund_failed', 'declined', 'cancelled')),
  -- 1 if the refund needs no approval, or the operator approved it.
  is_approved  INTEGER NOT NULL,
  network      TEXT NOT NULL,
  asset        TEXT NOT NULL,
  symbol       TEXT NOT NULL,
  payer        TEXT NOT NULL,
  amount       TEXT NOT NULL,
  -- Number of the transaction that may move the money: a new transaction is made only after the last one has certainly failed.
  attempt      INTEGER NOT NULL DEFAULT 1,
  -- Reference of that transaction, once it was queued.
  reference    TEXT UNIQUE,
  -- Hash under which it was mined, and its block.
  hash         TEXT,
  block_number TEXT,
  reason       TEXT,
  -- JSON of who approved or declined the refund, when and why.
  decision     TEXT,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX refunds_open ON refunds (network, state, call_id) WHERE state IN ('owed', 'sending');
CREATE INDEX refunds_by_state ON refunds (state, call_id);

-- Triggers, so that no way to make a dead letter, and no way to take it back, can forget the money.
CREATE TRIGGER refunds_owed AFTER UPDATE OF state ON job_calls
  WHEN NEW.state = 'dead' AND OLD.state <> 'dead' AND NEW.origin = 'x402'
BEGIN
  INSERT INTO refunds (call_id, state, is_approved, network, asset, symbol, payer, amount, created_at, updated_at)
    -- A payment that the operator closed as paid is not proven, so its refund needs the operator's approval.
    SELECT NEW.call_id, 'owed', on_failure = 'refund' AND closed IS NULL, network, asset, symbol, payer, amount,
           NEW.dead_at, NEW.dead_at
      FROM payments WHERE call_id = NEW.call_id AND on_failure <> 'keep'
  ON CONFLICT (call_id) DO UPDATE
    SET state = 'owed', is_approved = excluded.is_approved, attempt = attempt + (reference IS NOT NULL),
        reference = NULL, hash = NULL, reason = NULL, decision = NULL,
        created_at = excluded.created_at, updated_at = excluded.updated_at
    WHERE state = 'cancelled';
END;
CREATE TRIGGER refunds_cancelled AFTER UPDATE OF state ON job_calls WHEN OLD.state = 'dead' AND NEW.state <> 'dead'
BEGIN
  SELECT RAISE(ABORT, 'the refund of this JobCall is under way')
    WHERE EXISTS (SELECT 1 FROM refunds
                   WHERE call_id = NEW.call_id AND state IN ('sending', 'refunded', 'refund_failed'));
  UPDATE refunds SET state = 'cancelled' WHERE call_id = NEW.call_id;
END;
`;
