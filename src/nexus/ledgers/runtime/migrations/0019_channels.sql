-- Channels: how they are doing, what they have to send, and what they could not take in.
CREATE TABLE channels (
  -- How each channel is doing. What it is set to is in config.toml.
  name             TEXT PRIMARY KEY,
  paused           INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  status           TEXT NOT NULL DEFAULT 'stopped'
                   CHECK (status IN ('starting', 'connected', 'waiting', 'paused', 'stopped')),
  reason           TEXT,               -- why it waits: what went wrong last
  restarts         INTEGER NOT NULL DEFAULT 0,   -- how often it ended by itself since it was last connected
  cursor_json      TEXT,               -- how far its adapter has read, in the adapter's own terms
  queued_seq       INTEGER,            -- what goes out is in deliveries up to this event (seq)
  last_message_at  TEXT,               -- when something last came in
  updated_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE deliveries (
  -- Messages on their way out, and what became of each. What a message says is in events.events.
  event_id     TEXT PRIMARY KEY,       -- events.events: the message; also the key that adapters get
  channel      TEXT NOT NULL,
  thread_id    TEXT NOT NULL,          -- events.threads: messages of a thread leave in order
  status       TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'sent', 'failed')),
  attempts     INTEGER NOT NULL DEFAULT 0,
  next_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),   -- not before then
  external_id  TEXT,                   -- what the channel calls it
  error        TEXT,                   -- why the last attempt failed
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX deliveries_waiting ON deliveries (channel, thread_id, created_at) WHERE status = 'waiting';
CREATE INDEX deliveries_failed ON deliveries (channel) WHERE status = 'failed';

CREATE TABLE set_aside (
  -- Messages of channels that could not be taken in, with the reason. They can be retried.
  id           TEXT PRIMARY KEY,       -- asi_…
  channel      TEXT NOT NULL,
  external_id  TEXT NOT NULL,          -- what the channel calls the message
  sender       TEXT NOT NULL,          -- as the channel names them
  body_json    TEXT NOT NULL,          -- the message, as the adapter gave it
  reason       TEXT NOT NULL,
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (channel, external_id)
) STRICT;
