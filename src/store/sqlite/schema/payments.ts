/** The journal of payments, and the sums of settled payments. */
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

/**
 * Payments that are charged after their jobs. Their columns are `charge` and `ceiling` of payments, `ceiling`, `min_charge` and
 * `charge_so_far` of job_calls, and `charge` of results.
 */
export const DEFERRED = `
-- Payments whose authorization might end before they are charged.
CREATE INDEX payments_authorized      ON payments (valid_before_secs) WHERE state = 'authorized';
-- Payments that a payer has open.
CREATE INDEX deferred_payments_of_payer ON payments (payer) WHERE state IN ('authorized', 'settling');
-- Payments whose charge failed after their job.
CREATE INDEX payments_lost            ON payments (payer, updated_at) WHERE state = 'failed' AND charge <> 'before';
-- For the totals.
CREATE INDEX deferred_payments_open     ON payments (state, call_id)
  WHERE ceiling IS NOT NULL AND state IN ('authorized', 'settling', 'unresolved');
`;

/** Tables of payments that are not in the journal: adopted from the chain after a restore, and refused. */
export const ADOPTED_AND_REFUSED = `
-- Payments that the chain shows and a restored copy lacks. Each gets a row of payments once its buyer sends it again.
CREATE TABLE adopted_payments (
  payer      TEXT NOT NULL,
  nonce      TEXT NOT NULL,
  network    TEXT NOT NULL,
  asset      TEXT NOT NULL,
  -- JSON of amount, recipient, transaction, and who adopted it and why.
  adopted    TEXT NOT NULL,
  adopted_at INTEGER NOT NULL,
  PRIMARY KEY (payer, nonce, network, asset)
) STRICT, WITHOUT ROWID;

-- Payments that bought nothing, and why: the newest, for a week.
CREATE TABLE refused_payments (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  at         INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  service_id TEXT NOT NULL,
  job_index  INTEGER NOT NULL,
  payer      TEXT,
  code       TEXT NOT NULL,
  -- JSON of message, reason, network and amount.
  more       TEXT NOT NULL,
  -- Digest of job, code and reason.
  cause      TEXT NOT NULL
) STRICT;
-- Has all columns that counting them needs.
CREATE INDEX refused_payments_by_cause ON refused_payments (cause, at);
`;

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
