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
`;
