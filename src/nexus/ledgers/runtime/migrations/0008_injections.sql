CREATE TABLE injections (
  id               TEXT PRIMARY KEY,
  invocation_id    TEXT NOT NULL,
  request_id       TEXT NOT NULL,
  root_request_id  TEXT NOT NULL,
  execution_id     TEXT,
  rank             INTEGER NOT NULL,
  item_kind        TEXT NOT NULL,
  item_id          TEXT NOT NULL,
  text_sha256      TEXT NOT NULL,
  score            REAL NOT NULL,
  probability      REAL NOT NULL,
  why              TEXT NOT NULL DEFAULT '',
  decided_by       TEXT NOT NULL CHECK (decided_by IN ('model', 'triage')),
  injected         INTEGER NOT NULL CHECK (injected IN (0, 1)),
  used             INTEGER CHECK (used IN (0, 1)),
  used_by          TEXT CHECK (used_by IN ('id', 'words')),
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (invocation_id, rank)
) STRICT;
CREATE INDEX injections_root ON injections (root_request_id);
CREATE INDEX injections_request ON injections (request_id);
CREATE INDEX injections_item ON injections (item_id) WHERE injected;
CREATE INDEX injections_created ON injections (created_at);
