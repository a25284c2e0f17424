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
CREATE FUNCTION jobgate.add_revenue() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobgate.revenue_hours AS sums VALUES (
    NEW.updated_at / 3600000, NEW.network, NEW.asset, NEW.symbol, pg_backend_pid() % 64, NEW.amount::numeric, 1)
  ON CONFLICT (hour, network, asset, symbol, slot) DO UPDATE
    SET amount = sums.amount + excluded.amount, payments = sums.payments + 1;
  RETURN NULL;
END $$;
CREATE TRIGGER payments_revenue AFTER UPDATE OF state ON jobgate.payments FOR EACH ROW
  WHEN (NEW.state = 'settled' AND OLD.state <> 'settled') EXECUTE FUNCTION jobgate.add_revenue();

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

-- Triggers, so that no way to move money can forget the books.
CREATE FUNCTION jobgate.book_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobgate.movements (at, kind, call_id, service_id, job_index, network, asset, symbol, decimals, amount, account,
                                 counterparty, transaction_hash, block_number, price, rate)
  VALUES (
    NEW.updated_at, CASE WHEN NEW.ceiling IS NULL THEN 'payment' ELSE 'charge' END, NEW.call_id, NEW.service_id,
    NEW.job_index, NEW.network, NEW.asset, NEW.symbol, NEW.decimals, NEW.amount, lower(NEW.pay_to), NEW.payer,
    NULLIF(substring(NEW.settlement FROM '"transaction":"([^"]*)"'), ''), NEW.block_number, NEW.price_wei, NEW.rate);
  RETURN NULL;
END $$;
CREATE TRIGGER payments_booked AFTER UPDATE OF state ON jobgate.payments FOR EACH ROW
  WHEN (NEW.state = 'settled' AND OLD.state <> 'settled') EXECUTE FUNCTION jobgate.book_payment();
CREATE FUNCTION jobgate.book_refund() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobgate.movements (at, kind, call_id, service_id, job_index, network, asset, symbol, decimals, amount, account,
                                 counterparty, transaction_hash, block_number, price, rate)
    SELECT NEW.updated_at, 'refund', call_id, service_id, job_index, NEW.network, NEW.asset, NEW.symbol, decimals,
           '-' || NEW.amount,
           (SELECT account FROM jobgate.settler_transactions
             WHERE network = NEW.network || '/refunds' AND reference = NEW.reference),
           NEW.payer, NEW.hash, NEW.block_number, price_wei, rate
      FROM jobgate.payments WHERE call_id = NEW.call_id;
  RETURN NULL;
END $$;
CREATE TRIGGER refunds_booked AFTER UPDATE OF state ON jobgate.refunds FOR EACH ROW
  WHEN (NEW.state = 'refunded' AND OLD.state <> 'refunded') EXECUTE FUNCTION jobgate.book_refund();
CREATE FUNCTION jobgate.book_fee() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobgate.movements (at, kind, network, decimals, amount, account, transaction_hash, block_number)
  VALUES (NEW.finished_at, 'network_fee', replace(NEW.network, '/refunds', ''), 18, '-' || NEW.fee, NEW.account,
          NEW.mined_hash, NEW.block_number);
  RETURN NULL;
END $$;
CREATE TRIGGER fees_booked AFTER UPDATE OF state ON jobgate.settler_transactions FOR EACH ROW
  WHEN (NEW.state IN ('succeeded', 'reverted') AND OLD.state = 'sent' AND NEW.fee IS NOT NULL)
  EXECUTE FUNCTION jobgate.book_fee();
`;
