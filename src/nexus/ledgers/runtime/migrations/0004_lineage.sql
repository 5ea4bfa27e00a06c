-- A request can be restored after a restart, what a run did, gave and spent is tied to the run, and a
-- worker's result is known to have been delivered.

ALTER TABLE requests ADD COLUMN role TEXT;
ALTER TABLE requests ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN access_json TEXT NOT NULL DEFAULT '{}';

ALTER TABLE usage ADD COLUMN span_id TEXT;
CREATE INDEX usage_execution ON usage (execution_id) WHERE execution_id IS NOT NULL;

ALTER TABLE spans ADD COLUMN execution_id TEXT;

CREATE TABLE steps (
  -- What the recorded steps of a run gave, until it ends: the engine's own database holds no content.
  execution_id  TEXT NOT NULL REFERENCES executions (id),
  number        INTEGER NOT NULL,   -- 0, 1, 2, … in the order in which they begin
  name          TEXT NOT NULL,
  failed        INTEGER NOT NULL CHECK (failed IN (0, 1)),
  outcome       TEXT NOT NULL,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (execution_id, number)
) STRICT;

CREATE TABLE dispatches (
  -- Tasks that a run gave to workers, and which run got each result: every result reaches one run, once.
  id                    TEXT PRIMARY KEY,   -- dsp_…
  parent_request_id     TEXT NOT NULL REFERENCES requests (id),
  root_request_id       TEXT NOT NULL,
  parent_session_label  TEXT NOT NULL,
  parent_execution_id   TEXT NOT NULL,      -- executions: the run that gave the task
  call_id               TEXT NOT NULL,      -- its tool call
  worker_request_id     TEXT NOT NULL REFERENCES requests (id),
  worker_session_label  TEXT NOT NULL,
  execution_id          TEXT NOT NULL,      -- executions: the worker's run
  task                  TEXT NOT NULL,
  status                TEXT NOT NULL DEFAULT 'running'
                        CHECK (status IN ('running', 'done', 'failed', 'timeout', 'cancelled')),
  delivered_to          TEXT,               -- executions: the run that gets the result
  delivered_call_id     TEXT,               -- its call that waits for it, where one does
  created_at            TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  ended_at              TEXT
) STRICT;
CREATE INDEX dispatches_parent ON dispatches (parent_request_id);
CREATE INDEX dispatches_root ON dispatches (root_request_id);
CREATE UNIQUE INDEX dispatches_call ON dispatches (parent_execution_id, call_id);
CREATE INDEX dispatches_session ON dispatches (parent_session_label, created_at);
CREATE UNIQUE INDEX dispatches_worker ON dispatches (worker_request_id);
CREATE INDEX dispatches_undelivered ON dispatches (created_at) WHERE delivered_to IS NULL;
