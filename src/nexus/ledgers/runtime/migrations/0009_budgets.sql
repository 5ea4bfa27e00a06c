-- On whose account something was spent, and what was refused because a budget was used up.
ALTER TABLE usage ADD COLUMN automation TEXT;
UPDATE usage SET automation = (
  SELECT substr(run.session_label, 10, instr(substr(run.session_label, 10) || ':', ':') - 1)
  FROM executions AS run WHERE run.id = usage.execution_id AND run.session_label LIKE 'meeseeks:%');
CREATE INDEX usage_automation ON usage (automation, created_at) WHERE automation IS NOT NULL;

CREATE TABLE budget_hits (
  -- Each time that a run was refused a request because a budget was used up. It holds no content.
  id               TEXT PRIMARY KEY,   -- bgt_…
  budget           TEXT NOT NULL CHECK (budget IN ('request', 'automation', 'day', 'month')),
  unit             TEXT NOT NULL CHECK (unit IN ('usd', 'tokens')),
  automation       TEXT,               -- whose budget, where it is an automation's
  most             REAL NOT NULL,
  used             REAL NOT NULL,
  request_id       TEXT NOT NULL,
  root_request_id  TEXT NOT NULL,
  execution_id     TEXT,
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX budget_hits_created ON budget_hits (created_at);
CREATE INDEX budget_hits_root ON budget_hits (root_request_id);
