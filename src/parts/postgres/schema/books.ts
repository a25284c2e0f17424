/** Sums and movements of money. */
export const BOOKS = `
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

-- Every movement of money, in the order in which it became known. Rows are only added.
CREATE TABLE jobgate.movements (
  id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at               bigint NOT NULL,
  kind             text NOT NULL CHECK (kind IN ('payment', 'charge', 'refund', 'network_fee', 'correction')),
  call_id          bigint,
  service_id       text,
  job_index        bigint,
  network          text NOT NULL,
  -- Absent for the network's own coin.
  asset            text,
  symbol           text,
  decimals         int NOT NULL,
  -- Base units; negative when they leave the account.
  amount           text NOT NULL,
  account          text,
  counterparty     text,
  transaction_hash text,
  block_number     text,
  price            text,
  rate             text
);
CREATE INDEX movements_by_time ON jobgate.movements (at, id);
`;
