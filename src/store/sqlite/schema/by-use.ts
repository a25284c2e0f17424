/**
 * Payments by use, whose JobCalls run before any money moves. Their columns are `ceiling` of payments and job_calls,
 * `min_charge` and `charge_so_far` of job_calls, and `charge` of results.
 */
export const BY_USE = `
-- Payments whose authorization might end before they are charged.
CREATE INDEX payments_authorized      ON payments (valid_before_secs) WHERE state = 'authorized';
-- Payments that a payer has open.
CREATE INDEX payments_by_use_of_payer ON payments (payer) WHERE state IN ('authorized', 'settling');
-- For the totals.
CREATE INDEX payments_by_use          ON payments (state, call_id) WHERE ceiling IS NOT NULL;

-- Triggers, so that no way to finish a JobCall can forget its payment.
-- A JobCall that ran decides the charge; without a charge its payment is released.
CREATE TRIGGER payments_charged AFTER INSERT ON results WHEN NEW.charge IS NOT NULL
BEGIN
  UPDATE payments
     SET state = iif(NEW.charge = '0', 'released', 'settling'), amount = NEW.charge, updated_at = NEW.finished_at
   WHERE call_id = NEW.call_id AND state = 'authorized';
END;

-- A facilitator may move money all the same, and so may another gateway to which the payer showed the authorization.
CREATE TRIGGER payments_released_watched AFTER UPDATE OF state ON payments
  WHEN NEW.state = 'released' AND OLD.state <> 'released'
BEGIN
  INSERT OR REPLACE INTO watched_payments VALUES (NEW.call_id, NEW.updated_at, 1);
END;

-- A dead letter costs nothing.
CREATE TRIGGER payments_released AFTER UPDATE OF state ON job_calls
  WHEN NEW.state = 'dead' AND OLD.state <> 'dead' AND NEW.ceiling IS NOT NULL
BEGIN
  UPDATE payments
     SET state = 'released', amount = '0', reason = substr(NEW.dead_reason, 1, 500), updated_at = NEW.dead_at
   WHERE call_id = NEW.call_id AND state = 'authorized';
END;
`;
