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
CREATE TRIGGER payments_revenue AFTER UPDATE OF state ON payments
  WHEN NEW.state = 'settled' AND OLD.state <> 'settled'
BEGIN
  INSERT INTO revenue_hours VALUES (
    NEW.updated_at / 3600000, NEW.network, NEW.asset, NEW.symbol,
    CAST(substr(NEW.amount, 1, max(0, length(NEW.amount) - 9)) AS INTEGER),
    CAST(substr(NEW.amount, -9) AS INTEGER), 1)
  ON CONFLICT (hour, network, asset, symbol) DO UPDATE
    SET high = high + excluded.high, low = low + excluded.low, payments = payments + 1;
END;

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

-- Triggers, so that no way to move money can forget the books.
CREATE TRIGGER payments_booked AFTER UPDATE OF state ON payments WHEN NEW.state = 'settled' AND OLD.state <> 'settled'
BEGIN
  INSERT INTO movements (at, kind, call_id, service_id, job_index, network, asset, symbol, decimals, amount, account,
                         counterparty, transaction_hash, block_number, price, rate)
  VALUES (
    NEW.updated_at, iif(NEW.ceiling IS NULL, 'payment', 'charge'), NEW.call_id, NEW.service_id, NEW.job_index, NEW.network,
    NEW.asset, NEW.symbol, NEW.decimals, NEW.amount, lower(NEW.pay_to), NEW.payer,
    iif(json_valid(NEW.settlement), NULLIF(NEW.settlement ->> '$.transaction', ''), NULL), NEW.block_number, NEW.price_wei,
    NEW.rate);
END;
CREATE TRIGGER refunds_booked AFTER UPDATE OF state ON refunds WHEN NEW.state = 'refunded' AND OLD.state <> 'refunded'
BEGIN
  INSERT INTO movements (at, kind, call_id, service_id, job_index, network, asset, symbol, decimals, amount, account,
                         counterparty, transaction_hash, block_number, price, rate)
    SELECT NEW.updated_at, 'refund', call_id, service_id, job_index, NEW.network, NEW.asset, NEW.symbol, decimals,
           '-' || NEW.amount,
           (SELECT account FROM settler_transactions
             WHERE network = NEW.network || '/refunds' AND reference = NEW.reference),
           NEW.payer, NEW.hash, NEW.block_number, price_wei, rate
      FROM payments WHERE call_id = NEW.call_id;
END;
CREATE TRIGGER fees_booked AFTER UPDATE OF state ON settler_transactions
  WHEN NEW.state IN ('succeeded', 'reverted') AND OLD.state = 'sent' AND NEW.fee IS NOT NULL
BEGIN
  INSERT INTO movements (at, kind, network, decimals, amount, account, transaction_hash, block_number)
  VALUES (NEW.finished_at, 'network_fee', replace(NEW.network, '/refunds', ''), 18, '-' || NEW.fee, NEW.account,
          NEW.mined_hash, NEW.block_number);
END;
`;
