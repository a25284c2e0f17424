/** The journal of payments, and the sums of settled ones. */
export const PAYMENTS = `
-- Payments. Addresses and nonces are in one spelling.
CREATE TABLE payments (
  network                 TEXT NOT NULL,
  asset                   TEXT NOT NULL,
  payer                   TEXT NOT NULL,
  nonce                   TEXT NOT NULL,
  state                   TEXT NOT NULL
                          CHECK (state IN ('intent', 'settled', 'failed', 'unresolved', 'authorized', 'settling', 'released')),
  call_id                 INTEGER PRIMARY KEY,
  service_id              TEXT NOT NULL,
  job_index               INTEGER NOT NULL,
  fingerprint             TEXT NOT NULL UNIQUE,
  -- SHA-256 of the body, or of the whole request with the headers that are named.
  body_hash               TEXT NOT NULL,
  bound_headers           TEXT,
  x402_version            INTEGER NOT NULL,
  payload                 TEXT NOT NULL,
  -- NULL: as the payload's \`accepted\`.
  requirements            TEXT,
  transfer_method         TEXT NOT NULL,
  -- Name of the facilitator that the payment is sent to.
  facilitator             TEXT,
  pay_to                  TEXT NOT NULL,
  -- With a ceiling: the ceiling until the charge is known, and then the charge.
  amount                  TEXT NOT NULL,
  -- Whether the whole amount is charged before the job runs, or after, or as much as the job used.
  charge                  TEXT NOT NULL,
  -- Most that can be charged after the job; NULL for a payment that is charged before.
  ceiling                 TEXT,
  symbol                  TEXT NOT NULL,
  -- The token's decimals, and whole tokens for one unit of the price's currency, when the buyer paid.
  decimals                INTEGER NOT NULL,
  rate                    TEXT NOT NULL,
  price_wei               TEXT NOT NULL,
  valid_before_secs       INTEGER NOT NULL,
  -- Digest of the price at which the payment was made.
  receipt                 TEXT NOT NULL,
  -- Name that the payer chose for a purchase. Of its payments, at most one was charged or can be charged.
  purchase_name           TEXT,
  from_block              TEXT,
  -- JSON of the nonces beside the payment's own that are used up with the payment.
  one_time_nonces         TEXT,
  -- Promise to the buyer of a job that fails, as it was when the buyer paid.
  on_failure              TEXT NOT NULL DEFAULT 'keep',
  -- JSON of what parts keep of the request.
  notes                   TEXT,
  settlement              TEXT,
  block_number            TEXT,
  reason                  TEXT,
  -- JSON of who closed a payment that could not be decided, how, when and why.
  closed                  TEXT,
  created_at              INTEGER NOT NULL,
  updated_at              INTEGER NOT NULL,
  UNIQUE (network, asset, payer, nonce)
) STRICT;
CREATE INDEX payments_by_state ON payments (state, call_id);
-- Settled payments, by time.
CREATE INDEX payments_settled ON payments (updated_at) WHERE state = 'settled';
-- Undecided payments by age, of all payers and of each payer.
CREATE INDEX payments_undecided          ON payments (created_at)        WHERE state = 'intent';
CREATE INDEX payments_undecided_by_payer ON payments (payer, created_at) WHERE state = 'intent';
CREATE UNIQUE INDEX payments_by_purchase_name ON payments (payer, purchase_name)
  WHERE purchase_name IS NOT NULL AND state NOT IN ('failed', 'released');
-- The operator's lists.
CREATE INDEX payments_by_payer ON payments (payer, call_id);
CREATE INDEX payments_by_job   ON payments (job_index, call_id);

-- Decided payments that the chain may still contradict. The body of a failed payment's JobCall is kept as long,
-- unless it is deferred: it ran.
CREATE TABLE watched_payments (
  call_id   INTEGER PRIMARY KEY,
  since     INTEGER NOT NULL,
  is_deferred INTEGER NOT NULL,
  -- Settled in a block that a fork may still replace.
  is_early    INTEGER NOT NULL
) STRICT;
CREATE INDEX watched_payments_by_time ON watched_payments (since);
CREATE INDEX watched_payments_by_kind ON watched_payments (is_deferred, since);
CREATE INDEX watched_payments_early   ON watched_payments (call_id) WHERE is_early;

-- Settled amounts by hour, written in the transaction that settles: summing a million payments takes seconds. An amount is
-- high * 10^9 + low, because it may have 20 digits.
CREATE TABLE revenue_hours (
  hour     INTEGER NOT NULL,
  network  TEXT NOT NULL,
  asset    TEXT NOT NULL,
  symbol   TEXT NOT NULL,
  high     INTEGER NOT NULL,
  low      INTEGER NOT NULL,
  payments INTEGER NOT NULL,
  PRIMARY KEY (hour, network, asset, symbol)
) STRICT, WITHOUT ROWID;
`;
