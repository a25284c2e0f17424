/** Prices that were offered to clients, and one-time nonces. */
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

-- Nonces that were used, until they expire.
CREATE TABLE one_time_nonces (
  key             TEXT PRIMARY KEY,
  expires_at_secs INTEGER NOT NULL,
  -- The payment that used the nonce; 0 if it was used alone.
  call_id         INTEGER NOT NULL
) STRICT;
CREATE INDEX one_time_nonces_expiry ON one_time_nonces (expires_at_secs);
`;
