-- The table that automations grew out of, as it was before Nexus was written in Python.
-- A file that already holds it, from then, is taken over as it is.

CREATE TABLE schema_migrations (
  -- Which migrations this file has seen; each row was committed together with what it did.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE IF NOT EXISTS hooks (
  id                   TEXT PRIMARY KEY,
  name                 TEXT NOT NULL,
  description          TEXT,
  mode                 TEXT,
  status               TEXT,
  script_path          TEXT,
  script_hash          TEXT,
  triggers_json        TEXT,
  config_json          TEXT,
  created_by_agent     TEXT,
  created_by_session   TEXT,
  created_by_thread    TEXT,
  version              INTEGER,
  previous_version_id  TEXT,
  created_at           TEXT,
  updated_at           TEXT,
  disabled_at          TEXT,
  disabled_reason      TEXT,
  last_triggered       TEXT,
  trigger_count        INTEGER,
  last_error           TEXT,
  consecutive_errors   INTEGER,
  circuit_state        TEXT,
  circuit_opened_at    TEXT
);
