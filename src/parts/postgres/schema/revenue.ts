/** Sums of settled money. */
export const REVENUE = `
-- Settled amounts by hour, written in the transaction that settles: summing a million payments takes seconds. Each
-- connection has a row of its own (nearly: 64 slots), so that batches that run at the same time do not wait for each other.
CREATE TABLE jobgate.revenue_hours (
  hour     bigint NOT NULL,
  network  text NOT NULL,
  asset    text NOT NULL,
  symbol   text NOT NULL,
  slot     int NOT NULL,
  amount   numeric NOT NULL,
  payments bigint NOT NULL,
  PRIMARY KEY (hour, network, asset, symbol, slot)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500);
`;
