/**
 * Payments that are charged after their jobs. Their columns are `charge` and `ceiling` of payments, `ceiling`, `min_charge` and
 * `charge_so_far` of job_calls, and `charge` of results.
 */
export const DEFERRED = `
-- Payments whose authorization might end before they are charged.
CREATE INDEX payments_authorized      ON jobgate.payments (valid_before_secs) WHERE state = 'authorized';
-- Payments that a payer has open.
CREATE INDEX deferred_payments_of_payer ON jobgate.payments (payer) WHERE state IN ('authorized', 'settling');
-- Payments whose charge failed after their job.
CREATE INDEX payments_lost            ON jobgate.payments (payer, updated_at) WHERE state = 'failed' AND charge <> 'before';
-- For the totals.
CREATE INDEX deferred_payments_open     ON jobgate.payments (state, call_id)
  WHERE ceiling IS NOT NULL AND state IN ('authorized', 'settling', 'unresolved');
`;
