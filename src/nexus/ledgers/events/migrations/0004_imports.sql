CREATE TABLE imports (
  -- Histories that were imported from elsewhere, with how far each has come.
  id              TEXT PRIMARY KEY,             -- imp_…
  source          TEXT NOT NULL,                -- the format: chatgpt, mbox, slack, …
  location        TEXT NOT NULL,                -- the file or folder that was read
  fingerprint     TEXT NOT NULL,                -- of its size and edges: an interrupted import resumes only if it matches
  options_json    TEXT NOT NULL DEFAULT '{}',   -- how it was read: time zone, the owner's addresses, …
  status          TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done')),
  cursor          TEXT,                         -- where in the source to resume
  threads         INTEGER NOT NULL DEFAULT 0,   -- threads created
  messages        INTEGER NOT NULL DEFAULT 0,   -- events recorded
  known           INTEGER NOT NULL DEFAULT 0,   -- messages that were recorded before
  set_aside_json  TEXT NOT NULL DEFAULT '{}',   -- what could not be read: counts by reason, and examples
  created_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  completed_at    TEXT
) STRICT;
CREATE INDEX imports_created ON imports (created_at, id);

CREATE TABLE import_ranges (
  -- Which events came with which import, as ranges of their seq. Every event in a range belongs to the import.
  import_id  TEXT NOT NULL REFERENCES imports (id),
  first_seq  INTEGER NOT NULL,
  last_seq   INTEGER NOT NULL,
  PRIMARY KEY (import_id, first_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX import_ranges_seq ON import_ranges (first_seq);
