-- An approval is about one exact call. Rules given before are dropped: what they allowed was not shown whole.
ALTER TABLE approvals RENAME TO old_approvals;
DROP INDEX approvals_waiting;
DROP INDEX approvals_rules;
CREATE TABLE approvals (
  -- Tool calls that wait for the owner, and what was decided. One allowed for more than itself is a rule.
  id              TEXT PRIMARY KEY,   -- apr_…
  request_id      TEXT NOT NULL,
  root_request_id TEXT NOT NULL,
  execution_id    TEXT NOT NULL,      -- executions: the run that waits
  call_key        TEXT NOT NULL,      -- the call within the run
  session_label   TEXT NOT NULL,      -- of the root request: where the owner is asked
  tool            TEXT NOT NULL,
  arguments_json  TEXT NOT NULL,
  call_hash       TEXT NOT NULL,      -- SHA-256 of the tool and its exact arguments; '': asked before there was one
  reason          TEXT NOT NULL DEFAULT '',  -- why the owner is asked
  tainted_by      TEXT,               -- the text of somebody else that the run had read, if that is why
  preview         TEXT NOT NULL DEFAULT '',  -- what the call changes in a file, as a diff
  status          TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'allowed', 'denied', 'withdrawn')),
  scope           TEXT CHECK (scope IN ('once', 'session', 'always')),
  pattern         TEXT,               -- the calls allowed from then on, as JSON
  started_at      TEXT,               -- when the allowed call was made
  created_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  decided_at      TEXT,
  UNIQUE (execution_id, call_key, call_hash)
) STRICT;
INSERT INTO approvals (id, request_id, root_request_id, execution_id, call_key, session_label, tool, arguments_json, call_hash, status, scope, started_at, created_at, decided_at)
SELECT id, request_id, root_request_id, execution_id, call_key, session_label, tool, arguments_json, '', status, scope, started_at, created_at, decided_at FROM old_approvals;
DROP TABLE old_approvals;
CREATE INDEX approvals_waiting ON approvals (created_at) WHERE status = 'waiting';
CREATE INDEX approvals_rules ON approvals (scope, session_label) WHERE pattern IS NOT NULL;
