/** Table of the refused payments that the operator can look up. */
export const REFUSED_PAYMENTS = `
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
  more       TEXT NOT NULL
) STRICT;
`;
