import { CALLBACK_TRIED_MS } from "../../../store/contract/callback-ledger.ts";

/** JSON of the state in which a call ended. @param status @param job SQL */
const finished = (
  status: string,
  job: { readonly origin: string; readonly jobId: string; readonly of: string },
) =>
  `json_build_object('call_id', NEW.call_id, 'origin', ${job.origin}, 'service_id', ${job.of}.service_id::numeric,
        'job_id', ${job.jobId}::numeric, 'status', ${status})`;

/** Callbacks to operators and buyers. */
export const CALLBACKS = `
-- The operator's URLs. events has a blank around each event.
CREATE TABLE jobgate.callback_endpoints (
  url    text PRIMARY KEY,
  host   text NOT NULL,
  events text NOT NULL
);

-- Calls of those URLs and of buyers' URLs: each event for each URL that wants it.
CREATE TABLE jobgate.callbacks (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  event      text NOT NULL,
  call_id    bigint NOT NULL,
  -- When the event happened.
  at         bigint NOT NULL,
  -- JSON object that describes the event.
  data       text NOT NULL,
  url        text NOT NULL,
  host       text NOT NULL COLLATE "C",
  -- The buyer of the call gave the URL.
  is_buyers  int NOT NULL,
  state      text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'dead')),
  attempts   bigint NOT NULL DEFAULT 0,
  due_at     bigint NOT NULL,
  give_up_at bigint NOT NULL,
  reason     text,
  ended_at   bigint,
  UNIQUE (call_id, event, at, url, is_buyers)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1);
CREATE INDEX callbacks_pending ON jobgate.callbacks (host, due_at, id) WHERE state = 'pending';
CREATE INDEX callbacks_by_state ON jobgate.callbacks (state, id);
CREATE INDEX callbacks_ended ON jobgate.callbacks (ended_at) WHERE ended_at IS NOT NULL;

-- Triggers, so that no way to make an event can forget its callbacks. They call this function, which adds a callback for
-- each URL. A buyer does not see why a refund failed: only the operator can do something about it.
CREATE FUNCTION jobgate.add_callbacks(added text, of_call bigint, happened_at bigint, described json)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO jobgate.callbacks (event, call_id, at, data, url, host, is_buyers, due_at, give_up_at)
    SELECT added, of_call, happened_at, described::text, url, host, 0, happened_at, happened_at + ${CALLBACK_TRIED_MS}
      FROM jobgate.callback_endpoints WHERE position(' ' || added || ' ' IN events) > 0
    UNION ALL
    SELECT added, of_call, happened_at,
           CASE added WHEN 'refund.failed' THEN (described::jsonb - 'reason')::text ELSE described::text END,
           callback_url, split_part(callback_url, '/', 3), 1, happened_at, happened_at + ${CALLBACK_TRIED_MS}
      FROM jobgate.payments WHERE call_id = of_call AND callback_url IS NOT NULL
       AND added IN ('call.finished', 'refund.sent', 'refund.failed')
  ON CONFLICT DO NOTHING
$$;

CREATE FUNCTION jobgate.call_back_about_payment() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  described jsonb;
BEGIN
  IF NEW.state IN ('settled', 'unresolved') AND EXISTS (SELECT FROM jobgate.callback_endpoints) THEN
    described := jsonb_build_object('call_id', NEW.call_id, 'service_id', NEW.service_id::numeric, 'job_id', NEW.job_index,
      'network', NEW.network, 'asset', NEW.asset, 'symbol', NEW.symbol, 'amount', NEW.amount, 'payer', NEW.payer);
    IF NEW.state = 'settled' THEN
      PERFORM jobgate.add_callbacks('payment.settled', NEW.call_id, NEW.updated_at,
        (described || jsonb_build_object('transaction', NEW.settlement::json ->> 'transaction'))::json);
    ELSE
      PERFORM jobgate.add_callbacks('payment.unresolved', NEW.call_id, NEW.updated_at,
        (described || jsonb_build_object('reason', NEW.reason))::json);
    END IF;
  END IF;
  -- A call that is paid by use ends for its client once it ran and its charge is certain.
  IF NEW.ceiling IS NOT NULL AND NEW.state IN ('settled', 'failed', 'released')
    AND EXISTS (SELECT FROM jobgate.finished_calls WHERE call_id = NEW.call_id AND state = 'succeeded') THEN
    PERFORM jobgate.add_callbacks('call.finished', NEW.call_id, NEW.updated_at,
      ${finished("CASE NEW.state WHEN 'failed' THEN 'failed' ELSE 'succeeded' END", { origin: "'x402'", jobId: "NEW.job_index", of: "NEW" })});
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER callbacks_of_payment AFTER UPDATE OF state ON jobgate.payments FOR EACH ROW
  WHEN (NEW.state <> OLD.state AND NEW.state IN ('settled', 'unresolved', 'failed', 'released'))
  EXECUTE FUNCTION jobgate.call_back_about_payment();

CREATE FUNCTION jobgate.call_back_about_success() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  payment record;
BEGIN
  SELECT state, ceiling, callback_url INTO payment FROM jobgate.payments WHERE call_id = NEW.call_id;
  IF (payment.ceiling IS NULL OR payment.state IN ('settled', 'failed', 'released'))
    AND (payment.callback_url IS NOT NULL OR EXISTS (SELECT FROM jobgate.callback_endpoints)) THEN
    PERFORM jobgate.add_callbacks('call.finished', NEW.call_id, NEW.finished_at,
      ${finished("CASE WHEN payment.ceiling IS NOT NULL AND payment.state = 'failed' THEN 'failed' ELSE 'succeeded' END", { origin: "NEW.origin", jobId: "NEW.job_id", of: "NEW" })});
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER callbacks_succeeded AFTER INSERT ON jobgate.finished_calls FOR EACH ROW
  WHEN (NEW.state = 'succeeded') EXECUTE FUNCTION jobgate.call_back_about_success();

CREATE FUNCTION jobgate.call_back_about_dead_letter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM jobgate.add_callbacks('dead_letter', NEW.call_id, NEW.dead_at,
    json_build_object('call_id', NEW.call_id, 'origin', NEW.origin, 'service_id', NEW.service_id::numeric,
      'job_id', NEW.job_id::numeric, 'attempts', NEW.attempts, 'reason', NEW.dead_reason));
  PERFORM jobgate.add_callbacks('call.finished', NEW.call_id, NEW.dead_at,
    ${finished("'failed'", { origin: "NEW.origin", jobId: "NEW.job_id", of: "NEW" })});
  RETURN NULL;
END $$;
CREATE TRIGGER callbacks_dead AFTER UPDATE OF state ON jobgate.job_calls FOR EACH ROW
  WHEN (NEW.state = 'dead' AND OLD.state <> 'dead') EXECUTE FUNCTION jobgate.call_back_about_dead_letter();

CREATE FUNCTION jobgate.call_back_about_refund() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state = 'owed' THEN
    PERFORM jobgate.add_callbacks('refund.owed', NEW.call_id, NEW.updated_at,
      json_build_object('call_id', NEW.call_id, 'network', NEW.network, 'asset', NEW.asset, 'symbol', NEW.symbol,
        'amount', NEW.amount, 'payer', NEW.payer, 'waits_for_approval', NEW.is_approved = 0));
  ELSE
    PERFORM jobgate.add_callbacks('call.finished', NEW.call_id, NEW.updated_at,
      ${finished("'refunded'", { origin: "'x402'", jobId: "payments.job_index", of: "payments" })})
      FROM jobgate.payments WHERE call_id = NEW.call_id;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER callbacks_owed AFTER INSERT ON jobgate.refunds FOR EACH ROW
  WHEN (NEW.state = 'owed') EXECUTE FUNCTION jobgate.call_back_about_refund();
CREATE TRIGGER callbacks_of_refund AFTER UPDATE OF state ON jobgate.refunds FOR EACH ROW
  WHEN (NEW.state = 'owed' AND OLD.state = 'cancelled' OR NEW.state = 'refunded' AND OLD.state <> 'refunded')
  EXECUTE FUNCTION jobgate.call_back_about_refund();

CREATE FUNCTION jobgate.call_back_about_ended_refund() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM jobgate.add_callbacks(CASE NEW.state WHEN 'refunded' THEN 'refund.sent' ELSE 'refund.failed' END,
    NEW.call_id, NEW.updated_at,
    json_strip_nulls(json_build_object('call_id', NEW.call_id, 'origin', 'x402', 'network', NEW.network, 'asset', NEW.asset,
      'symbol', NEW.symbol, 'amount', NEW.amount, 'payer', NEW.payer, 'transaction', NEW.hash, 'reason', NEW.reason)));
  RETURN NULL;
END $$;
CREATE TRIGGER callbacks_refund_ended AFTER UPDATE OF state ON jobgate.refunds FOR EACH ROW
  WHEN (NEW.state IN ('refunded', 'refund_failed') AND OLD.state <> NEW.state)
  EXECUTE FUNCTION jobgate.call_back_about_ended_refund();
`;
