/** Tables of payments that are not in the journal: adopted from the chain after a restore, and refused. */
export const ADOPTED_AND_REFUSED = `
-- Payments that the chain shows and a restored copy lacks. Each gets a row of payments once its buyer sends it again.
CREATE TABLE jobgate.adopted_payments (
  payer      text NOT NULL,
  nonce      text NOT NULL,
  network    text NOT NULL,
  asset      text NOT NULL,
  -- JSON of amount, recipient, transaction, and who adopted it and why.
  adopted    text NOT NULL,
  adopted_at bigint NOT NULL,
  PRIMARY KEY (payer, nonce, network, asset)
);

-- Payments that bought nothing, and why: the newest, for a week.
CREATE TABLE jobgate.refused_payments (
  id         bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  at         bigint NOT NULL,
  request_id text NOT NULL,
  service_id text NOT NULL,
  job_index  bigint NOT NULL,
  payer      text,
  code       text NOT NULL,
  -- JSON of message, reason, network and amount.
  more       text NOT NULL,
  -- Digest of job, code and reason.
  cause      text NOT NULL
);
-- Has all columns that counting them needs.
CREATE INDEX refused_payments_by_cause ON jobgate.refused_payments (cause, at, id);
`;
