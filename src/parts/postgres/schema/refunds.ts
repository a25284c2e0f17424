/** Refunds of paid calls that became dead letters. */
export const REFUNDS = `
-- Money to give back for paid calls that are dead letters. The refund of a call that was retried is cancelled.
CREATE TABLE jobgate.refunds (
  call_id      bigint PRIMARY KEY,
  state        text NOT NULL
               CHECK (state IN ('owed', 'sending', 'refunded', 'refund_failed', 'declined', 'cancelled')),
  -- 1 if the refund needs no approval, or the operator approved it.
  is_approved  int NOT NULL,
  network      text NOT NULL,
  asset        text NOT NULL,
  symbol       text NOT NULL,
  payer        text NOT NULL,
  amount       text NOT NULL,
  -- Number of the transaction that may move the money: a new transaction is made only after the last one has certainly failed.
  attempt      bigint NOT NULL DEFAULT 1,
  -- Reference of that transaction, once it was queued.
  reference    text UNIQUE,
  -- Hash under which it was mined, and its block.
  hash         text,
  block_number text,
  reason       text,
  -- JSON of who approved or declined the refund, when and why.
  decision     text,
  created_at   bigint NOT NULL,
  updated_at   bigint NOT NULL
);
CREATE INDEX refunds_open ON jobgate.refunds (network, state, call_id) WHERE state IN ('owed', 'sending');
CREATE INDEX refunds_by_state ON jobgate.refunds (state, call_id);

-- Triggers, so that no way to make a dead letter, and no way to take it back, can forget the money.
CREATE FUNCTION jobgate.owe_refund() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobgate.refunds AS refund
      (call_id, state, is_approved, network, asset, symbol, payer, amount, created_at, updated_at)
    -- A payment that the operator closed as paid is not proven, so its refund needs the operator's approval.
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
