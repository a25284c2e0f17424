/** Tables of payments that are not in the journal: adopted from the chain after a restore, and refused. */
export const ADOPTED_AND_REFUSED = `
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

-- Payments that bought nothing, and why: the newest, for a week.
CREATE TABLE refused_payments (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  at         INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  service_id TEXT NOT NULL,
  job_index  INTEGER NOT NULL,
  payer      TEXT,
  code       TEXT NOT NULL,
  -- JSON of message, reason, network and amount.
  more       TEXT NOT NULL
) STRICT;
`;
