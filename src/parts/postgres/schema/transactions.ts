/** Transactions that jobgate itself signs and sends. */
export const TRANSACTIONS = `
-- Last nonce that an account has signed with. Outlives the transactions: no nonce is given twice.
CREATE TABLE jobgate.settler_accounts (
  network    text NOT NULL,
  account    text NOT NULL,
  last_nonce bigint NOT NULL,
  PRIMARY KEY (network, account)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500);

-- Transactions that settle payments and send refunds, until a day after their end.
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
  -- Wei that the mined transaction cost.
  fee               text,
  reason            text,
  queued_at         bigint NOT NULL,
  finished_at       bigint,
  UNIQUE (network, reference),
  UNIQUE (network, account, nonce)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1);
CREATE INDEX settler_transactions_open ON jobgate.settler_transactions (network, state, id) WHERE state IN ('queued', 'sent');
CREATE INDEX settler_transactions_finished ON jobgate.settler_transactions (finished_at) WHERE finished_at IS NOT NULL;
`;
