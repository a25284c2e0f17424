import type { SchemaDialect } from "../../../store/module.ts";

/** Returns the SQL of the tables of callbacks. */
export const callbacksSchema = ({
  schema,
  integer,
  freshId,
  bytewiseText,
  small,
  churning,
}: SchemaDialect): string => `
-- The operator's URLs. events has a blank around each event.
CREATE TABLE ${schema}callback_endpoints (
  url    TEXT PRIMARY KEY,
  host   TEXT NOT NULL,
  events TEXT NOT NULL
)${small};

-- Calls of those URLs and of buyers' URLs: each event for each URL that wants it.
CREATE TABLE ${schema}callbacks (
  id         ${freshId},
  event      TEXT NOT NULL,
  call_id    ${integer} NOT NULL,
  -- When the event happened.
  at         ${integer} NOT NULL,
  -- JSON object that describes the event.
  data       TEXT NOT NULL,
  url        TEXT NOT NULL,
  host       ${bytewiseText} NOT NULL,
  -- The buyer of the call gave the URL.
  is_buyers  ${integer} NOT NULL,
  state      TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'dead')),
  attempts   ${integer} NOT NULL DEFAULT 0,
  due_at     ${integer} NOT NULL,
  give_up_at ${integer} NOT NULL,
  reason     TEXT,
  ended_at   ${integer},
  UNIQUE (call_id, event, at, url, is_buyers)
)${churning};
CREATE INDEX callbacks_pending ON ${schema}callbacks (host, due_at, id) WHERE state = 'pending';
CREATE INDEX callbacks_by_state ON ${schema}callbacks (state, id);
CREATE INDEX callbacks_ended ON ${schema}callbacks (ended_at) WHERE ended_at IS NOT NULL;
`;
