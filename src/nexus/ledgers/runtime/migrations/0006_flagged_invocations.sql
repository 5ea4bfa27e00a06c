-- An automation can say that what came of it is no success, without having failed.
CREATE TABLE new_invocations (
  id                  TEXT PRIMARY KEY,
  automation_id       TEXT NOT NULL REFERENCES automations (id),
  automation_version  INTEGER NOT NULL,
  hook_point          TEXT NOT NULL,
  request_id          TEXT,
  root_request_id     TEXT,
  blocking            INTEGER NOT NULL CHECK (blocking IN (0, 1)),
  status              TEXT NOT NULL DEFAULT 'queued'
                      CHECK (status IN ('queued', 'running', 'done', 'flagged', 'failed', 'timeout', 'skipped')),
  result_json         TEXT,
  error               TEXT,
  duration_ms         REAL,
  created_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  started_at          TEXT,
  ended_at            TEXT,
  input_json          TEXT,
  output              TEXT
) STRICT;
INSERT INTO new_invocations (
  id, automation_id, automation_version, hook_point, request_id, root_request_id, blocking, status,
  result_json, error, duration_ms, created_at, started_at, ended_at, input_json, output)
SELECT id, automation_id, automation_version, hook_point, request_id, root_request_id, blocking, status,
       result_json, error, duration_ms, created_at, started_at, ended_at, input_json, output
FROM invocations;
DROP TABLE invocations;
ALTER TABLE new_invocations RENAME TO invocations;
CREATE INDEX invocations_automation ON invocations (automation_id, created_at);
CREATE INDEX invocations_request ON invocations (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX invocations_root ON invocations (root_request_id) WHERE root_request_id IS NOT NULL;
CREATE INDEX invocations_unfinished ON invocations (id) WHERE status IN ('queued', 'running');
