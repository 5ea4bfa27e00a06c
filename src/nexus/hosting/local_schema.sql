CREATE TABLE IF NOT EXISTS homes (
  -- The homes of this host.
  id         TEXT PRIMARY KEY,            -- what its work begins with in the engine's database
  name       TEXT NOT NULL UNIQUE,        -- its folder, and its part of the host name
  added_at   TEXT NOT NULL,
  limits     TEXT NOT NULL DEFAULT '{}',  -- JSON: where they differ from the defaults
  opened_at  TEXT,                        -- while it is open; after a crash it is opened to go on
  keeps_open INTEGER NOT NULL DEFAULT 0,  -- a channel of it waits for messages by itself
  problem    TEXT,                        -- why it could not be opened
  copied_at  TEXT                         -- while it is closed, with a complete copy and a folder
) STRICT;
CREATE INDEX IF NOT EXISTS homes_opened ON homes (id) WHERE opened_at IS NOT NULL OR keeps_open = 1;
CREATE TABLE IF NOT EXISTS tokens (
  -- Who may come in. A token itself is nowhere: only its digest is kept.
  digest  BLOB PRIMARY KEY,
  home_id TEXT REFERENCES homes (id) ON DELETE CASCADE,  -- NULL: it manages the host, and opens no home
  scope   TEXT NOT NULL CHECK (scope IN ('full', 'read', 'admin')),
  made_at TEXT NOT NULL,
  CHECK ((home_id IS NULL) = (scope = 'admin'))
) STRICT;
CREATE INDEX IF NOT EXISTS tokens_home ON tokens (home_id);
CREATE TABLE IF NOT EXISTS keys (
  -- One row: what the keys are made from that sign the logins of browsers.
  id  INTEGER PRIMARY KEY CHECK (id = 1),
  key TEXT NOT NULL
) STRICT;
