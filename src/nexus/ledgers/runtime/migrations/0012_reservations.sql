-- What requests under way may cost is held back from the budgets.
CREATE TABLE reservations (
  -- What requests to models that are under way may cost, so that runs side by side do not spend it twice.
  execution_id     TEXT PRIMARY KEY,   -- executions: a run asks one model at a time
  root_request_id  TEXT NOT NULL,
  automation       TEXT,               -- on whose account, where an automation caused it
  tokens           INTEGER NOT NULL,
  cost_microusd    INTEGER NOT NULL,   -- 0 where the price is not known
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
