/** Prices that were offered to clients, and callers' nonces. */
export const OFFERS = `
-- Offers made to clients, by job, while they are payable.
CREATE TABLE offers (
  id          TEXT PRIMARY KEY,
  service_id  TEXT NOT NULL,
  job_index   INTEGER NOT NULL,
  offer       TEXT NOT NULL,
  valid_until INTEGER NOT NULL
) STRICT;
CREATE INDEX offers_by_job ON offers (service_id, job_index);
CREATE INDEX offers_by_end ON offers (valid_until);

-- Signed quotes that can be paid, by their EIP-712 digest.
CREATE TABLE quotes (
  digest     TEXT PRIMARY KEY,
  quote      TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX quotes_by_end ON quotes (expires_at);
-- A quote that a client names is paid once, unless its payment failed. Buyers at one current price share its quote.
CREATE UNIQUE INDEX payments_by_quote ON payments (receipt) WHERE redeems_quote = 1 AND state <> 'failed';

-- Nonces of delegated callers' signatures that were used, until the signatures end.
CREATE TABLE caller_nonces (
  caller          TEXT NOT NULL COLLATE NOCASE,
  service_id      TEXT NOT NULL,
  job_index       INTEGER NOT NULL,
  nonce           TEXT NOT NULL,
  expires_at_secs INTEGER NOT NULL,
  -- The payment that used the nonce.
  call_id         INTEGER NOT NULL,
  PRIMARY KEY (caller, service_id, job_index, nonce)
) STRICT;
CREATE INDEX caller_nonces_expiry ON caller_nonces (expires_at_secs);
`;
