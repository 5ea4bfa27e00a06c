-- Tool calls that wait for the owner.
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
  status          TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'allowed', 'denied')),
  scope           TEXT CHECK (scope IN ('once', 'session', 'always')),
  pattern         TEXT,               -- the calls allowed from then on
  started_at      TEXT,               -- when the allowed call was made
  created_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  decided_at      TEXT,
  UNIQUE (execution_id, call_key)
) STRICT;
CREATE INDEX approvals_waiting ON approvals (created_at) WHERE status = 'waiting';
CREATE INDEX approvals_rules ON approvals (scope, session_label) WHERE pattern IS NOT NULL;
