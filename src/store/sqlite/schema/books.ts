/** Sums and movements of money. */
export const BOOKS = `
-- Settled amounts by hour, written in the transaction that settles: summing a million payments takes seconds. An amount is
-- high * 10^9 + low, because it may have 20 digits.
CREATE TABLE revenue_hours (
  hour     INTEGER NOT NULL,
  network  TEXT NOT NULL COLLATE NOCASE,
  asset    TEXT NOT NULL COLLATE NOCASE,
  symbol   TEXT NOT NULL,
  high     INTEGER NOT NULL,
  low      INTEGER NOT NULL,
  payments INTEGER NOT NULL,
  PRIMARY KEY (hour, network, asset, symbol)
) STRICT, WITHOUT ROWID;

-- Every movement of money, in the order in which it became known. Rows are only added.
CREATE TABLE movements (
  id               INTEGER PRIMARY KEY,
  at               INTEGER NOT NULL,
  kind             TEXT NOT NULL CHECK (kind IN ('payment', 'charge', 'refund', 'network_fee', 'correction')),
  call_id          INTEGER,
  service_id       TEXT,
  job_index        INTEGER,
  network          TEXT NOT NULL,
  -- Absent for the network's own coin.
  asset            TEXT,
  symbol           TEXT,
  decimals         INTEGER NOT NULL,
  -- Base units; negative when they leave the account.
  amount           TEXT NOT NULL,
  account          TEXT,
  counterparty     TEXT,
  transaction_hash TEXT,
  block_number     TEXT,
  price            TEXT,
  rate             TEXT
) STRICT;
CREATE INDEX movements_by_time ON movements (at, id);
`;
