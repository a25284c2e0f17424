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
`;
