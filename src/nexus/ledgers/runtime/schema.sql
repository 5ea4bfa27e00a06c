-- runtime.db: what the program did and what it cost: requests, executions, automations, traces.

CREATE TABLE schema_migrations (
  -- Which migrations this file has seen; each row was committed together with what it did.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE automations (
  -- Scripts that run at hook points. A new version is a new row; the one before it is `superseded`.
  id                   TEXT PRIMARY KEY DEFAULT ('aut_' || upper(hex(randomblob(13)))),
  name                 TEXT NOT NULL,
  description          TEXT,
  mode                 TEXT NOT NULL DEFAULT 'persistent',   -- persistent, or once
  status               TEXT NOT NULL DEFAULT 'active',       -- active, disabled, superseded
  script_path          TEXT,
  script_hash          TEXT,                                 -- sha256 of the registered script
  triggers_json        TEXT,                                 -- further conditions for firing
  config_json          TEXT,                                 -- the script's own settings
  created_by_agent     TEXT,
  created_by_session   TEXT,
  created_by_thread    TEXT,
  version              INTEGER NOT NULL DEFAULT 1,
  previous_version_id  TEXT REFERENCES automations (id),
  created_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  disabled_at          TEXT,
  disabled_reason      TEXT,
  last_triggered       TEXT,
  trigger_count        INTEGER NOT NULL DEFAULT 0,
  last_error           TEXT,
  consecutive_errors   INTEGER NOT NULL DEFAULT 0,
  circuit_state        TEXT NOT NULL DEFAULT 'closed',       -- closed, open, half_open
  circuit_opened_at    TEXT,
  hook_point           TEXT,                                 -- NULL means runAutomations
  workspace_dir        TEXT,                                 -- NULL means no workspace
  peer_workspaces      TEXT,                                 -- JSON array of workspace directories
  self_improvement     INTEGER NOT NULL DEFAULT 0 CHECK (self_improvement IN (0, 1)),
  timeout_ms           INTEGER,                              -- NULL means the hook point's
  blocking             INTEGER NOT NULL DEFAULT 1 CHECK (blocking IN (0, 1)),
  priority             INTEGER NOT NULL DEFAULT 100,         -- lower runs earlier; then age
  retries              INTEGER NOT NULL DEFAULT 0            -- how often a failed async invocation is tried again
) STRICT;
CREATE INDEX idx_automations_hook_point ON automations (hook_point);
CREATE INDEX automations_name ON automations (name, status);
CREATE INDEX automations_previous ON automations (previous_version_id) WHERE previous_version_id IS NOT NULL;

CREATE TABLE requests (
  -- One row for each message, worker or schedule that was worked on. Cost and trace go by root_request_id.
  id                  TEXT PRIMARY KEY,   -- req_…
  parent_request_id   TEXT REFERENCES requests (id),
  root_request_id     TEXT NOT NULL,      -- itself, where it is the root
  event_id            TEXT,               -- events.events: what asked for it
  thread_id           TEXT,               -- events.threads
  channel             TEXT,
  session_label       TEXT,
  principal_id        TEXT,               -- identity.entities: on whose behalf
  stage               TEXT,               -- the last stage that it entered
  status              TEXT NOT NULL DEFAULT 'running'
                      CHECK (status IN ('running', 'done', 'denied', 'failed', 'cancelled')),
  error               TEXT,
  created_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  ended_at            TEXT,
  role                TEXT,                         -- who answers: manager, worker, …
  depth               INTEGER NOT NULL DEFAULT 0,   -- how many dispatches lie above it
  access_json         TEXT NOT NULL DEFAULT '{}',   -- what it may reach; nothing, where it says nothing
  enrichment_json     TEXT                          -- what automations added to it
) STRICT;
CREATE INDEX requests_root ON requests (root_request_id);
CREATE INDEX requests_parent ON requests (parent_request_id) WHERE parent_request_id IS NOT NULL;
CREATE INDEX requests_event ON requests (event_id) WHERE event_id IS NOT NULL;
CREATE INDEX requests_created ON requests (created_at);
CREATE INDEX requests_listed ON requests (created_at, id, status, channel) WHERE root_request_id = id;
CREATE INDEX requests_channel ON requests (channel);
CREATE INDEX requests_running ON requests (created_at) WHERE status = 'running';

CREATE TABLE executions (
  -- One row for each agent run that went through the session queue, with what it got and what came of it.
  id               TEXT PRIMARY KEY,   -- exe_…; the engine knows it under the same id
  request_id       TEXT NOT NULL REFERENCES requests (id),
  root_request_id  TEXT NOT NULL,
  session_label    TEXT NOT NULL,
  lane             TEXT NOT NULL DEFAULT 'chat',
  work             TEXT NOT NULL DEFAULT '',           -- which registered body runs it
  mode             TEXT NOT NULL DEFAULT 'followup'    -- what happens while its session is busy
                   CHECK (mode IN ('followup', 'collect', 'steer', 'interrupt')),
  input_json       TEXT NOT NULL DEFAULT 'null',
  taken_by         TEXT REFERENCES executions (id),    -- the run that answered for this one too
  status           TEXT NOT NULL DEFAULT 'queued'
                   CHECK (status IN ('queued', 'running', 'done', 'failed', 'timeout', 'cancelled')),
  result_json      TEXT,
  error            TEXT,
  enqueued_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  started_at       TEXT,
  ended_at         TEXT,
  timeout_ms       INTEGER,                            -- how long its code may run, where that is limited
  waiting_since    TEXT,                               -- since when no provider answers it
  waiting_for      TEXT                                -- what the providers said last
) STRICT;
CREATE INDEX executions_request ON executions (request_id);
CREATE INDEX executions_root ON executions (root_request_id);
CREATE INDEX executions_session ON executions (session_label, enqueued_at);
CREATE INDEX executions_unfinished ON executions (session_label, id) WHERE status IN ('queued', 'running');
CREATE INDEX executions_taken ON executions (taken_by) WHERE taken_by IS NOT NULL;

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

CREATE TABLE invocations (
  -- One row for each time that an automation ran at a hook point.
  id                  TEXT PRIMARY KEY,   -- inv_…
  automation_id       TEXT NOT NULL REFERENCES automations (id),
  automation_version  INTEGER NOT NULL,
  hook_point          TEXT NOT NULL,
  request_id          TEXT,
  root_request_id     TEXT,
  blocking            INTEGER NOT NULL CHECK (blocking IN (0, 1)),
  status              TEXT NOT NULL DEFAULT 'queued'
                      CHECK (status IN ('queued', 'running', 'done', 'flagged', 'failed', 'timeout', 'skipped')),
  result_json         TEXT,               -- what it returned
  error               TEXT,               -- why it failed, or why it flagged what came of it
  duration_ms         REAL,
  created_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  started_at          TEXT,
  ended_at            TEXT,
  input_json          TEXT,               -- what an async one is given when its turn comes
  output              TEXT,               -- the beginning of what it printed and logged
  attempts            INTEGER NOT NULL DEFAULT 0,   -- how often it failed, of an async one
  retries_left        INTEGER NOT NULL DEFAULT 0,   -- how often it is yet tried again by itself
  retry_at            TEXT                -- when, where it waits for that
) STRICT;
CREATE INDEX invocations_automation ON invocations (automation_id, created_at);
CREATE INDEX invocations_request ON invocations (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX invocations_root ON invocations (root_request_id) WHERE root_request_id IS NOT NULL;
CREATE INDEX invocations_unfinished ON invocations (id) WHERE status IN ('queued', 'running');
CREATE INDEX invocations_dead ON invocations (created_at) WHERE blocking = 0 AND status IN ('failed', 'timeout');

CREATE TABLE injections (
  -- What the memory offered for a task, best first: what was put before the task, and what the answer used.
  id               TEXT PRIMARY KEY,   -- inj_…
  invocation_id    TEXT NOT NULL,      -- invocations: when it was decided
  request_id       TEXT NOT NULL,      -- requests: whose task it was for
  root_request_id  TEXT NOT NULL,
  execution_id     TEXT,               -- executions: the fast model's run, where one was asked
  rank             INTEGER NOT NULL,   -- 1, 2, … as recall ordered it
  item_kind        TEXT NOT NULL,      -- event, fact, observation, mental_model, episode, entity
  item_id          TEXT NOT NULL,
  text_sha256      TEXT NOT NULL,      -- of the text as it was then; the text itself is with the item
  score            REAL NOT NULL,      -- recall's order
  probability      REAL NOT NULL,      -- how likely it is relevant
  why              TEXT NOT NULL DEFAULT '',   -- how it was found and why it was chosen or left out
  decided_by       TEXT NOT NULL CHECK (decided_by IN ('model', 'triage')),
  injected         INTEGER NOT NULL CHECK (injected IN (0, 1)),
  used             INTEGER CHECK (used IN (0, 1)),   -- NULL until the answer is there, and where not injected
  used_by          TEXT CHECK (used_by IN ('id', 'words')),   -- how the use was told
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (invocation_id, rank)
) STRICT;
CREATE INDEX injections_root ON injections (root_request_id);
CREATE INDEX injections_request ON injections (request_id);
CREATE INDEX injections_item ON injections (item_id) WHERE injected;
CREATE INDEX injections_created ON injections (created_at);

CREATE TABLE usage (
  -- Tokens and money, one row for each model call. It holds no content and outlives what is forgotten.
  id                  TEXT PRIMARY KEY,   -- use_…
  request_id          TEXT NOT NULL,
  root_request_id     TEXT NOT NULL,
  execution_id        TEXT,
  invocation_id       TEXT,
  role                TEXT,
  provider            TEXT NOT NULL,
  model               TEXT NOT NULL,
  input_tokens        INTEGER NOT NULL DEFAULT 0,   -- fresh ones: neither read from nor written to a cache
  cache_read_tokens   INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens  INTEGER NOT NULL DEFAULT 0,
  output_tokens       INTEGER NOT NULL DEFAULT 0,
  cost_microusd       INTEGER,                      -- NULL where the price is not known
  created_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  span_id             TEXT,                         -- spans: the call that it was spent on
  automation          TEXT,                         -- on whose account, where an automation caused it
  estimated           INTEGER NOT NULL DEFAULT 0 CHECK (estimated IN (0, 1))   -- the provider's count is not known
) STRICT;
CREATE INDEX usage_root ON usage (root_request_id);
CREATE INDEX usage_execution ON usage (execution_id) WHERE execution_id IS NOT NULL;
CREATE INDEX usage_created ON usage (created_at);
CREATE INDEX usage_estimated ON usage (created_at) WHERE estimated;

CREATE TABLE usage_days (
  -- Sums of `usage` by day (UTC), model, role and automation. Its triggers keep them.
  day                 TEXT NOT NULL,
  provider            TEXT NOT NULL,
  model               TEXT NOT NULL,
  role                TEXT NOT NULL,      -- empty where none is known
  automation          TEXT NOT NULL,      -- empty where none caused it
  calls               INTEGER NOT NULL,
  input_tokens        INTEGER NOT NULL,
  cache_read_tokens   INTEGER NOT NULL,
  cache_write_tokens  INTEGER NOT NULL,
  output_tokens       INTEGER NOT NULL,
  cost_microusd       INTEGER NOT NULL,
  unpriced_calls      INTEGER NOT NULL,   -- those whose price is not known: the money leaves them out
  PRIMARY KEY (day, provider, model, role, automation)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_roots (
  -- Sums of `usage` by message, with everything that it led to. Its triggers keep them.
  root_request_id     TEXT PRIMARY KEY,
  day                 TEXT NOT NULL,      -- of its first call
  calls               INTEGER NOT NULL,
  input_tokens        INTEGER NOT NULL,
  cache_read_tokens   INTEGER NOT NULL,
  cache_write_tokens  INTEGER NOT NULL,
  output_tokens       INTEGER NOT NULL,
  cost_microusd       INTEGER NOT NULL,
  unpriced_calls      INTEGER NOT NULL    -- those whose price is not known: the money leaves them out
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_roots_dearest ON usage_roots (day, cost_microusd);

CREATE TRIGGER usage_is_added_up AFTER INSERT ON usage
BEGIN
  INSERT INTO usage_days
  VALUES (substr(new.created_at, 1, 10), new.provider, new.model, coalesce(new.role, ''),
          coalesce(new.automation, ''), 1, new.input_tokens, new.cache_read_tokens, new.cache_write_tokens,
          new.output_tokens, coalesce(new.cost_microusd, 0), new.cost_microusd IS NULL)
  ON CONFLICT DO UPDATE
  SET calls = calls + 1, input_tokens = input_tokens + excluded.input_tokens,
      cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
      output_tokens = output_tokens + excluded.output_tokens,
      cost_microusd = cost_microusd + excluded.cost_microusd,
      unpriced_calls = unpriced_calls + excluded.unpriced_calls;
  INSERT INTO usage_roots
  VALUES (new.root_request_id, substr(new.created_at, 1, 10), 1, new.input_tokens, new.cache_read_tokens,
          new.cache_write_tokens, new.output_tokens, coalesce(new.cost_microusd, 0), new.cost_microusd IS NULL)
  ON CONFLICT DO UPDATE
  SET day = min(day, excluded.day), calls = calls + 1, input_tokens = input_tokens + excluded.input_tokens,
      cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
      output_tokens = output_tokens + excluded.output_tokens,
      cost_microusd = cost_microusd + excluded.cost_microusd,
      unpriced_calls = unpriced_calls + excluded.unpriced_calls;
END;
CREATE TRIGGER usage_is_corrected
AFTER UPDATE OF input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_microusd ON usage
BEGIN
  UPDATE usage_days
  SET input_tokens = input_tokens + new.input_tokens - old.input_tokens,
      cache_read_tokens = cache_read_tokens + new.cache_read_tokens - old.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + new.cache_write_tokens - old.cache_write_tokens,
      output_tokens = output_tokens + new.output_tokens - old.output_tokens,
      cost_microusd = cost_microusd + coalesce(new.cost_microusd, 0) - coalesce(old.cost_microusd, 0),
      unpriced_calls = unpriced_calls + (new.cost_microusd IS NULL) - (old.cost_microusd IS NULL)
  WHERE day = substr(new.created_at, 1, 10) AND provider = new.provider AND model = new.model
    AND role = coalesce(new.role, '') AND automation = coalesce(new.automation, '');
  UPDATE usage_roots
  SET input_tokens = input_tokens + new.input_tokens - old.input_tokens,
      cache_read_tokens = cache_read_tokens + new.cache_read_tokens - old.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + new.cache_write_tokens - old.cache_write_tokens,
      output_tokens = output_tokens + new.output_tokens - old.output_tokens,
      cost_microusd = cost_microusd + coalesce(new.cost_microusd, 0) - coalesce(old.cost_microusd, 0),
      unpriced_calls = unpriced_calls + (new.cost_microusd IS NULL) - (old.cost_microusd IS NULL)
  WHERE root_request_id = new.root_request_id;
END;

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
CREATE INDEX budget_hits_created ON budget_hits (created_at);
CREATE INDEX budget_hits_root ON budget_hits (root_request_id);

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

CREATE TABLE models (
  -- What is known of each model that was asked: by its server's word, by a trial, or by an error.
  name        TEXT PRIMARY KEY,   -- provider/model, as config.toml names it
  address     TEXT NOT NULL,      -- where it was served: what was learned elsewhere is not used
  known_json  TEXT NOT NULL,      -- its capabilities, as far as they were learned
  updated_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE channels (
  -- How each channel is doing. What it is set to is in config.toml.
  name             TEXT PRIMARY KEY,
  paused           INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  status           TEXT NOT NULL DEFAULT 'stopped'
                   CHECK (status IN ('starting', 'connected', 'waiting', 'paused', 'stopped')),
  reason           TEXT,               -- why it waits: what went wrong last
  restarts         INTEGER NOT NULL DEFAULT 0,   -- how often it ended by itself since it was last connected
  cursor_json      TEXT,               -- how far its adapter has read, in the adapter's own terms
  queued_seq       INTEGER,            -- what goes out is in deliveries up to this event (seq)
  last_message_at  TEXT,               -- when something last came in
  updated_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE deliveries (
  -- Messages on their way out, and what became of each. What a message says is in events.events.
  event_id     TEXT PRIMARY KEY,       -- events.events: the message; also the key that adapters get
  channel      TEXT NOT NULL,
  thread_id    TEXT NOT NULL,          -- events.threads: messages of a thread leave in order
  status       TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'sent', 'failed')),
  attempts     INTEGER NOT NULL DEFAULT 0,
  next_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),   -- not before then
  external_id  TEXT,                   -- what the channel calls it
  error        TEXT,                   -- why the last attempt failed
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX deliveries_waiting ON deliveries (channel, thread_id, created_at) WHERE status = 'waiting';
CREATE INDEX deliveries_failed ON deliveries (channel) WHERE status = 'failed';

CREATE TABLE set_aside (
  -- Messages of channels that could not be taken in, with the reason. They can be retried.
  id           TEXT PRIMARY KEY,       -- asi_…
  channel      TEXT NOT NULL,
  external_id  TEXT NOT NULL,          -- what the channel calls the message
  sender       TEXT NOT NULL,          -- as the channel names them
  body_json    TEXT NOT NULL,          -- the message, as the adapter gave it
  reason       TEXT NOT NULL,
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (channel, external_id)
) STRICT;

CREATE TABLE spans (
  -- The trace: stages, hooks, executions, model and tool calls, each with when and how long.
  id               TEXT PRIMARY KEY,   -- spn_…
  parent_span_id   TEXT,
  request_id       TEXT NOT NULL,
  root_request_id  TEXT NOT NULL,
  kind             TEXT NOT NULL,      -- stage, hook, automation, execution, model, tool, …
  name             TEXT NOT NULL,
  started_at       TEXT NOT NULL,
  duration_ms      REAL,
  outcome          TEXT,               -- ok, error, timeout, cancelled, …
  attributes_json  TEXT NOT NULL DEFAULT '{}',
  execution_id     TEXT                -- executions: the run that it is a part of, if any
) STRICT;
CREATE INDEX spans_root ON spans (root_request_id, started_at);
CREATE INDEX spans_request ON spans (request_id);

CREATE TABLE forgets (
  -- What was forgotten, when and how much of it. It holds ids and counts, never content.
  id            TEXT PRIMARY KEY,   -- fgt_…
  target_kind   TEXT NOT NULL CHECK (target_kind IN ('entity', 'thread', 'range', 'import')),
  target        TEXT NOT NULL,      -- the id, or the range as START/END
  counts_json   TEXT NOT NULL DEFAULT '{}',   -- how much went: rows by table, emptied columns, files
  actor         TEXT NOT NULL,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  completed_at  TEXT                -- NULL while it is under way: it is resumed after a crash
) STRICT;

CREATE TABLE forget_items (
  -- The plan of a forget under way, so that a crash cannot lose it; empty once it is complete.
  forget_id  TEXT NOT NULL REFERENCES forgets (id),
  kind       TEXT NOT NULL,   -- a table, a table.column that is only emptied, or files
  item_id    TEXT NOT NULL,   -- a row's key (a JSON array where it has several columns), or a path
  PRIMARY KEY (forget_id, kind, item_id)
) STRICT, WITHOUT ROWID;
