-- A reservation says enough to be billed if its process dies. Those that are open now don't, and are dropped.
DROP TABLE reservations;
CREATE TABLE reservations (
  -- Requests to models under way: held back from budgets, and billed as estimated if their process dies.
  execution_id     TEXT PRIMARY KEY,   -- executions: a run asks one model at a time
  usage_id         TEXT NOT NULL,      -- usage: the row that it becomes then
  request_id       TEXT NOT NULL,
  root_request_id  TEXT NOT NULL,
  invocation_id    TEXT,
  role             TEXT,
  provider         TEXT NOT NULL,
  model            TEXT NOT NULL,
  automation       TEXT,               -- on whose account, where an automation caused it
  input_tokens     INTEGER NOT NULL,
  output_tokens    INTEGER NOT NULL,
  cost_microusd    INTEGER,            -- NULL where the price is not known
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
ALTER TABLE usage ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0 CHECK (estimated IN (0, 1));
CREATE INDEX usage_estimated ON usage (created_at) WHERE estimated;
