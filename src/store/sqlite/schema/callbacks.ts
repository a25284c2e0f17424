import { CALLBACK_TRIED_MS } from "../../contract/callback-ledger.ts";

const IS_WANTED = "EXISTS (SELECT 1 FROM callback_endpoints)";

/** JSON of a payment, for its events. */
const PAYMENT = `'call_id', NEW.call_id, 'service_id', json(NEW.service_id), 'job_id', NEW.job_index,
      'network', NEW.network, 'asset', NEW.asset, 'symbol', NEW.symbol, 'amount', NEW.amount, 'payer', NEW.payer`;

/** JSON of the state in which a call ended. @param status @param job SQL */
const finished = (
  status: string,
  job: { readonly origin: string; readonly jobId: string; readonly of: string },
) =>
  `json_object('call_id', NEW.call_id, 'origin', ${job.origin}, 'service_id', json(${job.of}.service_id),
      'job_id', json(${job.jobId}), 'status', ${status})`;

const REFUND = `INSERT INTO new_callbacks VALUES ('refund.owed', NEW.call_id, NEW.updated_at,
    json_object('call_id', NEW.call_id, 'network', NEW.network, 'asset', NEW.asset, 'symbol', NEW.symbol,
      'amount', NEW.amount, 'payer', NEW.payer, 'waits_for_approval', json(iif(NEW.is_approved, 'false', 'true'))));`;

/** Callbacks to operators and buyers. */
export const CALLBACKS = `
-- The operator's URLs. events has a blank around each event.
CREATE TABLE callback_endpoints (
  url    TEXT PRIMARY KEY,
  host   TEXT NOT NULL,
  events TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Calls of those URLs and of buyers' URLs: each event for each URL that wants it.
CREATE TABLE callbacks (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  event      TEXT NOT NULL,
  call_id    INTEGER NOT NULL,
  -- When the event happened.
  at         INTEGER NOT NULL,
  -- JSON object that describes the event.
  data       TEXT NOT NULL,
  url        TEXT NOT NULL,
  host       TEXT NOT NULL,
  -- The buyer of the call gave the URL.
  is_buyers  INTEGER NOT NULL,
  state      TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'dead')),
  attempts   INTEGER NOT NULL DEFAULT 0,
  due_at     INTEGER NOT NULL,
  give_up_at INTEGER NOT NULL,
  reason     TEXT,
  ended_at   INTEGER,
  UNIQUE (call_id, event, at, url, is_buyers)
) STRICT;
CREATE INDEX callbacks_pending ON callbacks (host, due_at, id) WHERE state = 'pending';
CREATE INDEX callbacks_by_state ON callbacks (state, id);
CREATE INDEX callbacks_ended ON callbacks (ended_at) WHERE ended_at IS NOT NULL;

-- Triggers, so that no way to make an event can forget its callbacks. They insert the event into this view, whose trigger
-- adds a callback for each URL.
CREATE VIEW new_callbacks AS SELECT '' AS event, 0 AS call_id, 0 AS at, '' AS data WHERE 0;
-- A buyer does not see why a refund failed: only the operator can do something about it.
CREATE TRIGGER callbacks_added INSTEAD OF INSERT ON new_callbacks
BEGIN
  INSERT INTO callbacks (event, call_id, at, data, url, host, is_buyers, due_at, give_up_at)
    SELECT NEW.event, NEW.call_id, NEW.at, NEW.data, url, host, 0, NEW.at, NEW.at + ${CALLBACK_TRIED_MS}
      FROM callback_endpoints WHERE instr(events, ' ' || NEW.event || ' ')
    UNION ALL
    SELECT NEW.event, NEW.call_id, NEW.at,
           iif(NEW.event = 'refund.failed', json_remove(NEW.data, '$.reason'), NEW.data), callback_url,
           substr(callback_url, instr(callback_url, '//') + 2,
                  instr(substr(callback_url, instr(callback_url, '//') + 2), '/') - 1),
           1, NEW.at, NEW.at + ${CALLBACK_TRIED_MS}
      FROM payments WHERE call_id = NEW.call_id AND callback_url IS NOT NULL
       AND NEW.event IN ('call.finished', 'refund.sent', 'refund.failed')
  ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER callbacks_settled AFTER UPDATE OF state ON payments
  WHEN NEW.state = 'settled' AND OLD.state <> 'settled' AND ${IS_WANTED}
BEGIN
  INSERT INTO new_callbacks VALUES ('payment.settled', NEW.call_id, NEW.updated_at,
    json_object(${PAYMENT}, 'transaction', NEW.settlement ->> '$.transaction'));
END;
CREATE TRIGGER callbacks_unresolved AFTER UPDATE OF state ON payments
  WHEN NEW.state = 'unresolved' AND OLD.state <> 'unresolved' AND ${IS_WANTED}
BEGIN
  INSERT INTO new_callbacks VALUES ('payment.unresolved', NEW.call_id, NEW.updated_at,
    json_object(${PAYMENT}, 'reason', NEW.reason));
END;
-- A call that is paid by use ends for its client once it ran and its charge is certain.
CREATE TRIGGER callbacks_charged AFTER UPDATE OF state ON payments
  WHEN NEW.ceiling IS NOT NULL AND NEW.state IN ('settled', 'failed', 'released') AND OLD.state <> NEW.state
    AND EXISTS (SELECT 1 FROM finished_calls WHERE call_id = NEW.call_id AND state = 'succeeded')
BEGIN
  INSERT INTO new_callbacks VALUES ('call.finished', NEW.call_id, NEW.updated_at,
    ${finished("iif(NEW.state = 'failed', 'failed', 'succeeded')", { origin: "'x402'", jobId: "NEW.job_index", of: "NEW" })});
END;
CREATE TRIGGER callbacks_succeeded AFTER INSERT ON finished_calls
  WHEN NEW.state = 'succeeded' AND (${IS_WANTED}
    OR EXISTS (SELECT 1 FROM payments WHERE call_id = NEW.call_id AND callback_url IS NOT NULL))
BEGIN
  INSERT INTO new_callbacks SELECT 'call.finished', NEW.call_id, NEW.finished_at,
    ${finished("iif(ceiling IS NOT NULL AND payments.state = 'failed', 'failed', 'succeeded')", { origin: "NEW.origin", jobId: "NEW.job_id", of: "NEW" })}
    FROM (SELECT 1) LEFT JOIN payments ON payments.call_id = NEW.call_id
   WHERE ceiling IS NULL OR payments.state IN ('settled', 'failed', 'released');
END;
CREATE TRIGGER callbacks_dead AFTER UPDATE OF state ON job_calls WHEN NEW.state = 'dead' AND OLD.state <> 'dead'
BEGIN
  INSERT INTO new_callbacks VALUES ('dead_letter', NEW.call_id, NEW.dead_at,
    json_object('call_id', NEW.call_id, 'origin', NEW.origin, 'service_id', json(NEW.service_id),
      'job_id', json(NEW.job_id), 'attempts', NEW.attempts, 'reason', NEW.dead_reason));
  INSERT INTO new_callbacks VALUES ('call.finished', NEW.call_id, NEW.dead_at,
    ${finished("'failed'", { origin: "NEW.origin", jobId: "NEW.job_id", of: "NEW" })});
END;
CREATE TRIGGER callbacks_owed AFTER INSERT ON refunds WHEN NEW.state = 'owed' AND ${IS_WANTED}
BEGIN
  ${REFUND}
END;
CREATE TRIGGER callbacks_owed_again AFTER UPDATE OF state ON refunds
  WHEN NEW.state = 'owed' AND OLD.state = 'cancelled' AND ${IS_WANTED}
BEGIN
  ${REFUND}
END;
CREATE TRIGGER callbacks_refunded AFTER UPDATE OF state ON refunds
  WHEN NEW.state = 'refunded' AND OLD.state <> 'refunded'
BEGIN
  INSERT INTO new_callbacks SELECT 'call.finished', NEW.call_id, NEW.updated_at,
    ${finished("'refunded'", { origin: "'x402'", jobId: "payments.job_index", of: "payments" })}
    FROM payments WHERE call_id = NEW.call_id;
END;
CREATE TRIGGER callbacks_refund_ended AFTER UPDATE OF state ON refunds
  WHEN NEW.state IN ('refunded', 'refund_failed') AND OLD.state <> NEW.state
BEGIN
  INSERT INTO new_callbacks VALUES (iif(NEW.state = 'refunded', 'refund.sent', 'refund.failed'), NEW.call_id, NEW.updated_at,
    json_patch(json_object('call_id', NEW.call_id, 'origin', 'x402', 'network', NEW.network, 'asset', NEW.asset, 'symbol', NEW.symbol,
      'amount', NEW.amount, 'payer', NEW.payer), json_object('transaction', NEW.hash, 'reason', NEW.reason)));
END;
`;
