import type { SchemaDialect } from "../../../store/module.ts";

/** Returns the SQL of the tables of transactions. */
export const transactionsSchema = ({ schema, integer, freshId, small, churning }: SchemaDialect): string => `
-- Last nonce that an account has signed with. Outlives the transactions: no nonce is given twice.
CREATE TABLE ${schema}settler_accounts (
  network    TEXT NOT NULL,
  account    TEXT NOT NULL,
  last_nonce ${integer} NOT NULL,
  PRIMARY KEY (network, account)
)${small};

-- Transactions that parts send, until a day after their end.
CREATE TABLE ${schema}settler_transactions (
  id                ${freshId},
  network           TEXT NOT NULL,
  reference         TEXT NOT NULL,
  state             TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'sent', 'succeeded', 'reverted', 'dropped')),
  to_address        TEXT NOT NULL,
  data              TEXT NOT NULL,
  valid_before_secs ${integer},
  account           TEXT,
  nonce             ${integer},
  raw               TEXT,
  hash              TEXT,
  -- JSON array of the hashes of replaced bytes.
  earlier_hashes    TEXT NOT NULL DEFAULT '[]',
  signed_at         ${integer},
  mined_hash        TEXT,
  block_number      TEXT,
  -- Wei that the mined transaction cost.
  fee               TEXT,
  reason            TEXT,
  queued_at         ${integer} NOT NULL,
  finished_at       ${integer},
  UNIQUE (network, reference),
  UNIQUE (network, account, nonce)
)${churning};
CREATE INDEX settler_transactions_open ON ${schema}settler_transactions (network, state, id) WHERE state IN ('queued', 'sent');
CREATE INDEX settler_transactions_finished ON ${schema}settler_transactions (finished_at) WHERE finished_at IS NOT NULL;
`;
