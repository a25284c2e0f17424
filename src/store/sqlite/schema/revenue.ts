/** Sums of settled money. */
export const REVENUE = `
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
`;
