-- Browsers can be notified of scheduled messages, approvals and workers' results.
CREATE TABLE push_subscriptions (
  -- Browsers that get notifications. Revoking one deletes its row.
  id            TEXT PRIMARY KEY,   -- psh_…
  endpoint      TEXT NOT NULL UNIQUE,   -- the browser's push service
  p256dh        TEXT NOT NULL,      -- the browser's public key
  auth          TEXT NOT NULL,      -- the browser's authentication secret
  session       TEXT NOT NULL DEFAULT '',   -- digest of the login that subscribed; logging out deletes the row
  browser       TEXT NOT NULL DEFAULT '',   -- its name, such as Chrome on Android
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  last_sent_at  TEXT,
  failure       TEXT                -- why the last notification didn't arrive
) STRICT;

CREATE TABLE push_sent (
  -- What browsers were notified of, so that nothing is sent twice.
  item_id     TEXT PRIMARY KEY,     -- events.events, approvals or dispatches
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT, WITHOUT ROWID;

CREATE INDEX dispatches_ended ON dispatches (ended_at) WHERE ended_at IS NOT NULL;
