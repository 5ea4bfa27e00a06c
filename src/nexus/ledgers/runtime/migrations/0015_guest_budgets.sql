-- Budgets of those who are not the owner.
ALTER TABLE budget_hits RENAME TO old_budget_hits;
CREATE TABLE budget_hits (
  -- Each time that a run was refused a request because a budget was used up. It holds no content.
  id               TEXT PRIMARY KEY,   -- bgt_…
  budget           TEXT NOT NULL CHECK (budget IN ('request', 'automation', 'guest', 'guests', 'day', 'month')),
  unit             TEXT NOT NULL CHECK (unit IN ('usd', 'tokens')),
  automation       TEXT,               -- whose budget, where it is an automation's
  most             REAL NOT NULL,
  used             REAL NOT NULL,
  request_id       TEXT NOT NULL,
  root_request_id  TEXT NOT NULL,
  execution_id     TEXT,
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
INSERT INTO budget_hits SELECT * FROM old_budget_hits;
DROP TABLE old_budget_hits;
CREATE INDEX budget_hits_created ON budget_hits (created_at);
CREATE INDEX budget_hits_root ON budget_hits (root_request_id);
