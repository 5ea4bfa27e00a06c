-- A single message and a whole scope can be forgotten. SQLite changes no CHECK in place.
CREATE TABLE new_forgets (
  -- Record of each forget: ids and counts, no content.
  id            TEXT PRIMARY KEY,   -- fgt_…
  target_kind   TEXT NOT NULL CHECK (target_kind IN ('entity', 'fact', 'event', 'thread', 'scope', 'range', 'import')),
  target        TEXT NOT NULL,      -- the id, the channel of the scope, or the range as START/END
  counts_json   TEXT NOT NULL DEFAULT '{}',   -- rows deleted by table, emptied columns, files
  actor         TEXT NOT NULL,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  completed_at  TEXT                -- NULL while unfinished; resumable after a crash
) STRICT;
INSERT INTO new_forgets SELECT * FROM forgets;
DROP TABLE forgets;
ALTER TABLE new_forgets RENAME TO forgets;
