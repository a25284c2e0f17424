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
`;
