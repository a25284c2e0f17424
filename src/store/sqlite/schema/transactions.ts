/** Transactions that jobgate itself signs and sends. */
export const TRANSACTIONS = `
-- Last nonce that an account has signed with. Outlives the transactions: no nonce is given twice.
CREATE TABLE settler_accounts (
  network    TEXT NOT NULL,
  account    TEXT NOT NULL,
  last_nonce INTEGER NOT NULL,
  PRIMARY KEY (network, account)
) STRICT, WITHOUT ROWID;

-- Transactions that settle payments and send refunds, until a day after their end.
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
  -- Wei that the mined transaction cost.
  fee               TEXT,
  reason            TEXT,
  queued_at         INTEGER NOT NULL,
  finished_at       INTEGER,
  UNIQUE (network, reference),
  UNIQUE (network, account, nonce)
) STRICT;
CREATE INDEX settler_transactions_open ON settler_transactions (network, state, id) WHERE state IN ('queued', 'sent');
CREATE INDEX settler_transactions_finished ON settler_transactions (finished_at) WHERE finished_at IS NOT NULL;
`;
