-- The owner renames sessions and archives those they are done with.
ALTER TABLE agent_sessions ADD COLUMN title TEXT;
ALTER TABLE agent_sessions ADD COLUMN archived_at TEXT;
