/**
 * Payments by use, whose JobCalls run before any money moves. Their columns are `ceiling` of payments and job_calls,
 * `min_charge` and `charge_so_far` of job_calls, and `charge` of results.
 */
export const BY_USE = `
-- Payments whose authorization might end before they are charged.
CREATE INDEX payments_authorized      ON jobgate.payments (valid_before_secs) WHERE state = 'authorized';
-- Payments that a payer has open.
CREATE INDEX payments_by_use_of_payer ON jobgate.payments (payer) WHERE state IN ('authorized', 'settling');
-- For the totals.
CREATE INDEX payments_by_use          ON jobgate.payments (state, call_id) WHERE ceiling IS NOT NULL;

-- Triggers, so that no way to finish a JobCall can forget its payment.
-- A JobCall that ran decides the charge; without a charge its payment is released.
CREATE FUNCTION jobgate.charge_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE jobgate.payments
     SET state = CASE NEW.charge WHEN '0' THEN 'released' ELSE 'settling' END, amount = NEW.charge,
         updated_at = NEW.finished_at
   WHERE call_id = NEW.call_id AND state = 'authorized';
  RETURN NULL;
END $$;
CREATE TRIGGER payments_charged AFTER INSERT ON jobgate.results FOR EACH ROW
  WHEN (NEW.charge IS NOT NULL) EXECUTE FUNCTION jobgate.charge_payment();
-- A facilitator may move money all the same, and so may another gateway to which the payer showed the authorization.
CREATE FUNCTION jobgate.watch_released() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobgate.watched_payments VALUES (NEW.call_id, NEW.updated_at, true)
  ON CONFLICT (call_id) DO UPDATE SET since = excluded.since;
  RETURN NULL;
END $$;
CREATE TRIGGER payments_released_watched AFTER UPDATE OF state ON jobgate.payments FOR EACH ROW
  WHEN (NEW.state = 'released' AND OLD.state <> 'released') EXECUTE FUNCTION jobgate.watch_released();
-- A dead letter costs nothing.
CREATE FUNCTION jobgate.release_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE jobgate.payments
     SET state = 'released', amount = '0', reason = substr(NEW.dead_reason, 1, 500), updated_at = NEW.dead_at
   WHERE call_id = NEW.call_id AND state = 'authorized';
  RETURN NULL;
END $$;
CREATE TRIGGER payments_released AFTER UPDATE OF state ON jobgate.job_calls FOR EACH ROW
  WHEN (NEW.state = 'dead' AND OLD.state <> 'dead' AND NEW.ceiling IS NOT NULL)
  EXECUTE FUNCTION jobgate.release_payment();
`;
