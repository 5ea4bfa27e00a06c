-- events.db: every message and document, inbound and outbound, on every channel.
-- Rows in `events` are never changed, and only `nexus forget` deletes them.

CREATE TABLE schema_migrations (
  -- Migrations applied to this file, each committed together with its row.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE threads (
  -- Conversations that group events: a chat, an email thread, a channel, a session.
  id                TEXT PRIMARY KEY,                -- thr_…
  channel           TEXT NOT NULL,                   -- cli, slack, imessage, email, …
  external_id       TEXT,                            -- the channel's id for the thread
  kind              TEXT NOT NULL DEFAULT 'chat',    -- chat, email, channel, session, …
  title             TEXT,
  parent_thread_id  TEXT REFERENCES threads (id),
  metadata_json     TEXT NOT NULL DEFAULT '{}',
  created_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE UNIQUE INDEX threads_external ON threads (channel, external_id) WHERE external_id IS NOT NULL;

CREATE TABLE events (
  -- One row per message or document, in recording order. Append-only.
  seq                INTEGER PRIMARY KEY AUTOINCREMENT,  -- recording order; never reused
  id                 TEXT NOT NULL UNIQUE,               -- evt_…
  thread_id          TEXT REFERENCES threads (id),
  channel            TEXT NOT NULL,
  direction          TEXT NOT NULL CHECK (direction IN ('inbound', 'outbound', 'internal')),
  kind               TEXT NOT NULL DEFAULT 'message',    -- message, document, reaction, …
  external_id        TEXT,                               -- the channel's id; unique per channel
  sender             TEXT,                               -- the sender, as named by the channel
  content            TEXT NOT NULL,
  content_type       TEXT NOT NULL DEFAULT 'text/plain',
  reply_to_event_id  TEXT,
  request_id         TEXT,                               -- runtime.requests: the request that produced it (outbound)
  metadata_json      TEXT NOT NULL DEFAULT '{}',
  occurred_at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),  -- when it was sent
  created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))   -- when it was recorded
) STRICT;
CREATE UNIQUE INDEX events_external ON events (channel, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX events_thread ON events (thread_id, seq);
CREATE INDEX events_unasked ON events (thread_id, occurred_at) WHERE direction = 'outbound' AND reply_to_event_id IS NULL;
CREATE INDEX events_occurred ON events (occurred_at);
CREATE INDEX events_request ON events (request_id) WHERE request_id IS NOT NULL;

CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events is append-only: a recorded event is never changed'); END;

CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events is append-only: use `nexus forget` to remove'); END;

-- INSERT OR REPLACE would delete the old row without firing the trigger above.
CREATE TRIGGER events_are_not_replaced BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE id = NEW.id OR seq = NEW.seq)
  OR (NEW.external_id IS NOT NULL
      AND EXISTS (SELECT 1 FROM events WHERE channel = NEW.channel AND external_id = NEW.external_id))
BEGIN SELECT RAISE(ABORT, 'events is append-only: that event is recorded already'); END;

-- Source of the full-text index, which stores no copy of the text.
CREATE VIEW events_text AS SELECT seq, id AS event_id, sender, content FROM events;

CREATE VIRTUAL TABLE events_fts USING fts5 (
  event_id UNINDEXED, sender, content,
  content = 'events_text', content_rowid = 'seq', tokenize = 'porter unicode61'
);
CREATE VIRTUAL TABLE events_terms USING fts5vocab (events_fts, row);

CREATE TRIGGER events_are_indexed AFTER INSERT ON events
BEGIN
  INSERT INTO events_fts (rowid, event_id, sender, content)
  VALUES (NEW.seq, NEW.id, NEW.sender, NEW.content);
END;

CREATE TRIGGER events_are_unindexed AFTER DELETE ON events
BEGIN
  INSERT INTO events_fts (events_fts, rowid, event_id, sender, content)
  VALUES ('delete', OLD.seq, OLD.id, OLD.sender, OLD.content);
END;

-- Events in scripts without spaces (Chinese, Japanese, Thai…), indexed by trigrams. The trailing space lets
-- the last two characters start a trigram.
CREATE VIEW events_unspaced AS
SELECT seq, id AS event_id, sender, content || ' ' AS content FROM events
WHERE content GLOB '*[ก-ໟက-႟ក-៹々-ヿ㐀-鿿豈-龎𠀀-𳍐]*';

CREATE VIRTUAL TABLE events_unspaced_fts USING fts5 (
  event_id UNINDEXED, sender, content,
  content = 'events_unspaced', content_rowid = 'seq', tokenize = 'trigram'
);
CREATE VIRTUAL TABLE events_unspaced_terms USING fts5vocab (events_unspaced_fts, row);

CREATE TRIGGER unspaced_events_are_indexed AFTER INSERT ON events
BEGIN
  INSERT INTO events_unspaced_fts (rowid, event_id, sender, content)
  SELECT seq, event_id, sender, content FROM events_unspaced WHERE seq = NEW.seq;
END;

CREATE TRIGGER unspaced_events_are_unindexed BEFORE DELETE ON events
BEGIN
  INSERT INTO events_unspaced_fts (events_unspaced_fts, rowid, event_id, sender, content)
  SELECT 'delete', seq, event_id, sender, content FROM events_unspaced WHERE seq = OLD.seq;
END;

CREATE TABLE event_participants (
  -- People involved in an event.
  event_id      TEXT NOT NULL REFERENCES events (id),
  role          TEXT NOT NULL CHECK (role IN ('sender', 'recipient', 'cc', 'observer')),
  identifier    TEXT NOT NULL,   -- as given by the channel: a number, an address, a handle
  display_name  TEXT,
  contact_id    TEXT,            -- identity.contacts, once resolved
  entity_id     TEXT,            -- identity.entities, once resolved
  PRIMARY KEY (event_id, role, identifier)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_participants_entity ON event_participants (entity_id) WHERE entity_id IS NOT NULL;
CREATE INDEX event_participants_identifier ON event_participants (identifier);

CREATE TABLE attachments (
  -- Files attached to an event. The bytes are in a file below the home.
  id          TEXT PRIMARY KEY,   -- att_…
  event_id    TEXT NOT NULL REFERENCES events (id),
  filename    TEXT,
  media_type  TEXT NOT NULL,
  size_bytes  INTEGER,
  sha256      TEXT,
  path        TEXT,               -- relative to the home
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX attachments_event ON attachments (event_id);

CREATE TABLE imports (
  -- Imported histories and their progress.
  id              TEXT PRIMARY KEY,             -- imp_…
  source          TEXT NOT NULL,                -- the format: chatgpt, mbox, slack, …
  location        TEXT NOT NULL,                -- the file or folder read
  fingerprint     TEXT NOT NULL,                -- hash of size, start and end; an interrupted import resumes only if it matches
  options_json    TEXT NOT NULL DEFAULT '{}',   -- options: time zone, the owner's addresses, …
  status          TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done')),
  cursor          TEXT,                         -- where in the source to resume
  threads         INTEGER NOT NULL DEFAULT 0,   -- threads created
  messages        INTEGER NOT NULL DEFAULT 0,   -- events recorded
  known           INTEGER NOT NULL DEFAULT 0,   -- messages recorded before
  set_aside_json  TEXT NOT NULL DEFAULT '{}',   -- unreadable items: counts by reason, with examples
  created_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  completed_at    TEXT
) STRICT;
CREATE INDEX imports_created ON imports (created_at, id);

CREATE TABLE import_ranges (
  -- Events of each import, as ranges of seq. Every event in a range belongs to the import.
  import_id  TEXT NOT NULL REFERENCES imports (id),
  first_seq  INTEGER NOT NULL,
  last_seq   INTEGER NOT NULL,
  PRIMARY KEY (import_id, first_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX import_ranges_seq ON import_ranges (first_seq);

CREATE TABLE bus_events (
  -- What happened to the home as a whole: an import ended, something was forgotten, a backup was restored.
  seq           INTEGER PRIMARY KEY AUTOINCREMENT,   -- cursor for programs that follow along
  type          TEXT NOT NULL,      -- history.imported, home.restored, entity.forgotten, thread.forgotten, …
  subject_type  TEXT,
  subject_id    TEXT,
  payload_json  TEXT NOT NULL DEFAULT '{}',
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
