/** Table of the refused payments that the operator can look up. */
export const REFUSED_PAYMENTS = `
-- Payments that bought nothing, and why: the newest, for a week.
CREATE TABLE jobgate.refused_payments (
  id         bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  at         bigint NOT NULL,
  request_id text NOT NULL,
  service_id text NOT NULL,
  job_index  integer NOT NULL,
  payer      text,
  code       text NOT NULL,
  -- JSON of message, reason, network and amount.
  more       text NOT NULL
);
`;
