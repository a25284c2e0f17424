/** The journal of payments, and the sums of settled payments. */
export const PAYMENTS = `
-- Payments.
CREATE TABLE jobgate.payments (
  network                 text NOT NULL,
  asset                   text NOT NULL,
  payer                   text NOT NULL,
  nonce                   text NOT NULL,
  state                   text NOT NULL
                          CHECK (state IN ('intent', 'settled', 'failed', 'unresolved', 'authorized', 'settling', 'released')),
  call_id                 bigint NOT NULL UNIQUE,
  service_id              text NOT NULL,
  job_index               bigint NOT NULL,
  fingerprint             text NOT NULL UNIQUE,
  -- SHA-256 of the body, or of the whole request with the headers that are named.
  body_hash               text NOT NULL,
  bound_headers           text,
  x402_version            int NOT NULL,
  payload                 text NOT NULL,
  -- NULL: as the payload's \`accepted\`.
  requirements            text,
  transfer_method         text NOT NULL,
  -- Name of the facilitator that the payment is sent to.
  facilitator             text,
  pay_to                  text NOT NULL,
  -- With a ceiling: the ceiling until the charge is known, and then the charge.
  amount                  text NOT NULL,
  -- Whether the whole amount is charged before the job runs, or after, or as much as the job used.
  charge                  text NOT NULL,
  -- Most that can be charged after the job; NULL for a payment that is charged before.
  ceiling                 text,
  symbol                  text NOT NULL,
  -- The token's decimals, and whole tokens for one unit of the price's currency, when the buyer paid.
  decimals                int NOT NULL,
  rate                    text NOT NULL,
  price_wei               text NOT NULL,
  valid_before_secs       bigint NOT NULL,
  -- Digest of the price at which the payment was made.
  receipt                 text NOT NULL,
  -- Name that the payer chose for a purchase. Of its payments, at most one was charged or can be charged.
  purchase_name           text,
  from_block              text,
  -- JSON of the nonces beside the payment's own that are used up with the payment.
  one_time_nonces         text,
  -- Promise to the buyer of a job that fails, as it was when the buyer paid.
  on_failure              text NOT NULL DEFAULT 'keep',
  -- JSON of what parts keep of the request.
  notes                   text,
  settlement              text,
  block_number            text,
  reason                  text,
  -- JSON of who closed a payment that could not be decided, how, when and why.
  closed                  text,
  created_at              bigint NOT NULL,
  updated_at              bigint NOT NULL,
  PRIMARY KEY (network, asset, payer, nonce)
);
CREATE INDEX payments_by_state ON jobgate.payments (state, call_id);
-- Settled payments, by time.
CREATE INDEX payments_settled ON jobgate.payments (updated_at) WHERE state = 'settled';
-- Undecided payments by age, of all payers and of each payer.
CREATE INDEX payments_undecided          ON jobgate.payments (created_at)        WHERE state = 'intent';
CREATE INDEX payments_undecided_by_payer ON jobgate.payments (payer, created_at) WHERE state = 'intent';
CREATE UNIQUE INDEX payments_by_purchase_name ON jobgate.payments (payer, purchase_name)
  WHERE purchase_name IS NOT NULL AND state NOT IN ('failed', 'released');
-- The operator's lists.
CREATE INDEX payments_by_payer ON jobgate.payments (payer, call_id);
CREATE INDEX payments_by_job   ON jobgate.payments (job_index, call_id);

-- Decided payments that the chain may still contradict. The body of a failed payment's JobCall is kept as long,
-- unless it is deferred: it ran.
CREATE TABLE jobgate.watched_payments (
  call_id   bigint PRIMARY KEY,
  since     bigint NOT NULL,
  is_deferred boolean NOT NULL,
  -- Settled in a block that a fork may still replace.
  is_early    boolean NOT NULL
);
CREATE INDEX watched_payments_by_time ON jobgate.watched_payments (since);
CREATE INDEX watched_payments_by_kind ON jobgate.watched_payments (is_deferred, since);
CREATE INDEX watched_payments_early   ON jobgate.watched_payments (call_id) WHERE is_early;

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
`;
