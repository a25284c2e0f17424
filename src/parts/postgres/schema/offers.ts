/** Prices that were offered to clients, and callers' nonces. */
export const OFFERS = `
-- Offers made to clients, by job, while they are payable.
CREATE TABLE jobgate.offers (
  id          text PRIMARY KEY,
  service_id  text NOT NULL,
  job_index   bigint NOT NULL,
  offer       text NOT NULL,
  valid_until bigint NOT NULL
);
CREATE INDEX offers_by_job ON jobgate.offers (service_id, job_index);
CREATE INDEX offers_by_end ON jobgate.offers (valid_until);

-- Signed quotes that can be paid, by their EIP-712 digest.
CREATE TABLE jobgate.quotes (
  digest     text PRIMARY KEY,
  quote      text NOT NULL,
  expires_at bigint NOT NULL
);
CREATE INDEX quotes_by_end ON jobgate.quotes (expires_at);
-- A quote that a client names is paid once, unless its payment failed. Buyers at one current price share its quote.
CREATE UNIQUE INDEX payments_by_quote ON jobgate.payments (receipt) WHERE redeems_quote = 1 AND state <> 'failed';

-- Nonces of delegated callers' signatures that were used, until the signatures end.
CREATE TABLE jobgate.caller_nonces (
  caller          text NOT NULL,
  service_id      text NOT NULL,
  job_index       bigint NOT NULL,
  nonce           text NOT NULL,
  expires_at_secs bigint NOT NULL,
  -- The payment that used the nonce.
  call_id         bigint NOT NULL,
  PRIMARY KEY (caller, service_id, job_index, nonce)
);
CREATE INDEX caller_nonces_expiry ON jobgate.caller_nonces (expires_at_secs);
`;
