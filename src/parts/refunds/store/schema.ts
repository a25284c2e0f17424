import type { SchemaDialect } from "../../../store/module.ts";

/** Returns the SQL of the table of refunds. */
export const refundsSchema = ({ schema, integer, plain }: SchemaDialect): string => `
-- Money to give back for paid calls that are dead letters. The refund of a call that was retried is cancelled.
CREATE TABLE ${schema}refunds (
  call_id      ${integer} PRIMARY KEY,
  state        TEXT NOT NULL
               CHECK (state IN ('owed', 'sending', 'refunded', 'refund_failed', 'declined', 'cancelled')),
  -- 1 if the refund needs no approval, or the operator approved it.
  is_approved  ${integer} NOT NULL,
  -- 1 if it is owed because its JobCall failed.
  is_of_failed ${integer} NOT NULL,
  network      TEXT NOT NULL,
  asset        TEXT NOT NULL,
  symbol       TEXT NOT NULL,
  payer        TEXT NOT NULL,
  amount       TEXT NOT NULL,
  -- Number of the transaction that may move the money: a new transaction is made only after the last one has certainly failed.
  attempt      ${integer} NOT NULL DEFAULT 1,
  -- Reference of that transaction, once it was queued.
  reference    TEXT UNIQUE,
  -- Hash under which it was mined, and its block.
  hash         TEXT,
  block_number TEXT,
  reason       TEXT,
  -- JSON of who approved or declined the refund, when and why.
  decision     TEXT,
  created_at   ${integer} NOT NULL,
  updated_at   ${integer} NOT NULL
)${plain};
CREATE INDEX refunds_open ON ${schema}refunds (network, state, call_id) WHERE state IN ('owed', 'sending');
CREATE INDEX refunds_of_others ON ${schema}refunds (call_id) WHERE is_of_failed = 0 AND state <> 'cancelled';
CREATE INDEX refunds_by_state ON ${schema}refunds (state, call_id);
`;
