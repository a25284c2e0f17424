/** Migration for the books. */
export const BOOKS = `
-- Facts of a payment that only its own time knows: the rate of its price, and the token's decimals. The block it was made in.
ALTER TABLE payments ADD COLUMN rate         TEXT;
ALTER TABLE payments ADD COLUMN decimals     INTEGER;
ALTER TABLE payments ADD COLUMN block_number TEXT;
ALTER TABLE refunds  ADD COLUMN block_number TEXT;
-- Wei that a mined transaction cost.
ALTER TABLE settler_transactions ADD COLUMN fee TEXT;

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
  decimals         INTEGER,
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
INSERT INTO movements (at, kind, call_id, service_id, job_index, network, asset, symbol, amount, account, counterparty,
                       transaction_hash, price)
  SELECT updated_at AS at, iif(ceiling IS NULL, 'payment', 'charge'), call_id AS call, service_id, job_index, network, asset,
         symbol, amount, lower(pay_to), payer,
         iif(json_valid(settlement), NULLIF(settlement ->> '$.transaction', ''), NULL), price_wei
    FROM payments WHERE state = 'settled'
  UNION ALL
  SELECT refunds.updated_at, 'refund', call_id, service_id, job_index, refunds.network, refunds.asset, refunds.symbol,
         '-' || refunds.amount, NULL, refunds.payer, hash, price_wei
    FROM refunds JOIN payments USING (call_id) WHERE refunds.state = 'refunded'
  ORDER BY at, call;

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
