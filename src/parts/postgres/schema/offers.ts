/** Prices that were offered to clients, and one-time nonces. */
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

-- Nonces that were used, until they expire.
CREATE TABLE jobgate.one_time_nonces (
  key             text PRIMARY KEY,
  expires_at_secs bigint NOT NULL,
  -- The payment that used the nonce; 0 if it was used alone.
  call_id         bigint NOT NULL
);
CREATE INDEX one_time_nonces_expiry ON jobgate.one_time_nonces (expires_at_secs);
`;
