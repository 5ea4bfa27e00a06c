-- An import can be forgotten as a whole. SQLite changes no CHECK in place.
CREATE TABLE new_forgets (
  -- What was forgotten, when and how much of it. It holds ids and counts, never content.
  id            TEXT PRIMARY KEY,   -- fgt_…
  target_kind   TEXT NOT NULL CHECK (target_kind IN ('entity', 'thread', 'range', 'import')),
  target        TEXT NOT NULL,      -- the id, or the range as START/END
  counts_json   TEXT NOT NULL DEFAULT '{}',   -- how much went: rows by table, emptied columns, files
  actor         TEXT NOT NULL,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  completed_at  TEXT                -- NULL while it is under way: it is resumed after a crash
) STRICT;
INSERT INTO new_forgets SELECT * FROM forgets;
DROP TABLE forgets;
ALTER TABLE new_forgets RENAME TO forgets;
