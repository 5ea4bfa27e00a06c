-- runtime.db: what Nexus did and what it cost: requests, executions, automations, traces.

CREATE TABLE schema_migrations (
  -- Migrations applied to this file, each committed together with its row.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE automations (
  -- Code that runs at hook points. A new version is a new row; the previous one becomes `superseded`.
  id                   TEXT PRIMARY KEY DEFAULT ('aut_' || upper(hex(randomblob(13)))),
  name                 TEXT NOT NULL,
  description          TEXT,
  mode                 TEXT NOT NULL DEFAULT 'persistent',   -- persistent, or once
  status               TEXT NOT NULL DEFAULT 'active',       -- active, disabled, superseded
  script_path          TEXT,
  script_hash          TEXT,                                 -- sha256 of the registered script
  triggers_json        TEXT,                                 -- conditions that narrow when it runs
  config_json          TEXT,                                 -- its settings
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
  hook_point           TEXT,                                 -- NULL: runAutomations
  workspace_dir        TEXT,                                 -- NULL: no workspace
  peer_workspaces      TEXT,                                 -- JSON array of workspace directories
  self_improvement     INTEGER NOT NULL DEFAULT 0 CHECK (self_improvement IN (0, 1)),
  timeout_ms           INTEGER,                              -- NULL: the hook point's
  blocking             INTEGER NOT NULL DEFAULT 1 CHECK (blocking IN (0, 1)),
  priority             INTEGER NOT NULL DEFAULT 100,         -- lower runs first, then by age
  retries              INTEGER NOT NULL DEFAULT 0            -- retries of a failed async invocation
) STRICT;
CREATE INDEX idx_automations_hook_point ON automations (hook_point);
CREATE INDEX automations_name ON automations (name, status);
CREATE INDEX automations_previous ON automations (previous_version_id) WHERE previous_version_id IS NOT NULL;

CREATE TABLE requests (
  -- One row per message, worker task or scheduled run. Cost and trace are grouped by root_request_id.
  id                  TEXT PRIMARY KEY,   -- req_…
  parent_request_id   TEXT REFERENCES requests (id),
  root_request_id     TEXT NOT NULL,      -- its own id for a root
  event_id            TEXT,               -- events.events: the message that caused it
  thread_id           TEXT,               -- events.threads
  channel             TEXT,
  session_label       TEXT,
  principal_id        TEXT,               -- identity.entities: on whose behalf it runs
  stage               TEXT,               -- the last stage entered
  status              TEXT NOT NULL DEFAULT 'running'
                      CHECK (status IN ('running', 'done', 'denied', 'failed', 'cancelled')),
  error               TEXT,
  created_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  ended_at            TEXT,
  role                TEXT,                         -- manager, worker, …
  depth               INTEGER NOT NULL DEFAULT 0,   -- number of dispatches above it
  access_json         TEXT NOT NULL DEFAULT '{}',   -- its rights; none if empty
  enrichment_json     TEXT                          -- added by automations
) STRICT;
CREATE INDEX requests_root ON requests (root_request_id);
CREATE INDEX requests_parent ON requests (parent_request_id) WHERE parent_request_id IS NOT NULL;
CREATE INDEX requests_event ON requests (event_id) WHERE event_id IS NOT NULL;
CREATE INDEX requests_created ON requests (created_at);
CREATE INDEX requests_listed ON requests (created_at, id, status, channel) WHERE root_request_id = id;
CREATE INDEX requests_channel ON requests (channel);
CREATE INDEX requests_running ON requests (created_at) WHERE status = 'running';

CREATE TABLE executions (
  -- One row per agent run in the session queue, with input and result.
  id               TEXT PRIMARY KEY,   -- exe_…; the same id in the engine
  request_id       TEXT NOT NULL REFERENCES requests (id),
  root_request_id  TEXT NOT NULL,
  session_label    TEXT NOT NULL,
  lane             TEXT NOT NULL DEFAULT 'chat',
  work             TEXT NOT NULL DEFAULT '',           -- the registered function that runs it
  mode             TEXT NOT NULL DEFAULT 'followup'    -- behavior while the session is busy
                   CHECK (mode IN ('followup', 'collect', 'steer', 'interrupt')),
  input_json       TEXT NOT NULL DEFAULT 'null',
  taken_by         TEXT REFERENCES executions (id),    -- the run that also answered this one
  status           TEXT NOT NULL DEFAULT 'queued'
                   CHECK (status IN ('queued', 'running', 'done', 'failed', 'timeout', 'cancelled')),
  result_json      TEXT,
  error            TEXT,
  enqueued_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  started_at       TEXT,
  ended_at         TEXT,
  timeout_ms       INTEGER,                            -- time limit, if any
  waiting_since    TEXT,                               -- when it started waiting for a provider
  waiting_for      TEXT                                -- the providers' last error
) STRICT;
CREATE INDEX executions_request ON executions (request_id);
CREATE INDEX executions_root ON executions (root_request_id);
CREATE INDEX executions_session ON executions (session_label, enqueued_at);
CREATE INDEX executions_unfinished ON executions (session_label, id) WHERE status IN ('queued', 'running');
CREATE INDEX executions_taken ON executions (taken_by) WHERE taken_by IS NOT NULL;

CREATE TABLE steps (
  -- Recorded step results of unfinished runs. The engine's database holds no content.
  execution_id  TEXT NOT NULL REFERENCES executions (id),
  name          TEXT NOT NULL,
  number        INTEGER NOT NULL,   -- among the steps of that name: 0, 1, 2, … in order of start
  failed        INTEGER NOT NULL CHECK (failed IN (0, 1)),
  outcome       TEXT NOT NULL,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (execution_id, name, number)
) STRICT;

CREATE TABLE dispatches (
  -- Tasks given to workers, and the run that received each result, once.
  id                    TEXT PRIMARY KEY,   -- dsp_…
  parent_request_id     TEXT NOT NULL REFERENCES requests (id),
  root_request_id       TEXT NOT NULL,
  parent_session_label  TEXT NOT NULL,
  parent_execution_id   TEXT NOT NULL,      -- executions: the dispatching run
  call_id               TEXT NOT NULL,      -- its tool call
  worker_request_id     TEXT NOT NULL REFERENCES requests (id),
  worker_session_label  TEXT NOT NULL,
  execution_id          TEXT NOT NULL,      -- executions: the worker's run
  task                  TEXT NOT NULL,
  status                TEXT NOT NULL DEFAULT 'running'
                        CHECK (status IN ('running', 'done', 'failed', 'timeout', 'cancelled')),
  delivered_to          TEXT,               -- executions: the run that receives the result
  delivered_call_id     TEXT,               -- the tool call waiting for it, if any
  created_at            TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  ended_at              TEXT
) STRICT;
CREATE INDEX dispatches_parent ON dispatches (parent_request_id);
CREATE INDEX dispatches_root ON dispatches (root_request_id);
CREATE UNIQUE INDEX dispatches_call ON dispatches (parent_execution_id, call_id);
CREATE INDEX dispatches_session ON dispatches (parent_session_label, created_at);
CREATE UNIQUE INDEX dispatches_worker ON dispatches (worker_request_id);
CREATE INDEX dispatches_undelivered ON dispatches (created_at) WHERE delivered_to IS NULL;
CREATE INDEX dispatches_ended ON dispatches (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE invocations (
  -- One row per automation run.
  id                  TEXT PRIMARY KEY,   -- inv_…
  automation_id       TEXT NOT NULL REFERENCES automations (id),
  automation_version  INTEGER NOT NULL,
  hook_point          TEXT NOT NULL,
  request_id          TEXT,
  root_request_id     TEXT,
  blocking            INTEGER NOT NULL CHECK (blocking IN (0, 1)),
  status              TEXT NOT NULL DEFAULT 'queued'
                      CHECK (status IN ('queued', 'running', 'done', 'flagged', 'failed', 'timeout', 'skipped')),
  result_json         TEXT,               -- its return value
  error               TEXT,               -- why it failed or was flagged
  duration_ms         REAL,
  created_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  started_at          TEXT,
  ended_at            TEXT,
  input_json          TEXT,               -- input of an async invocation
  output              TEXT,               -- start of its output and log
  attempts            INTEGER NOT NULL DEFAULT 0,   -- failed attempts (async)
  retries_left        INTEGER NOT NULL DEFAULT 0,   -- automatic retries left
  retry_at            TEXT                -- time of the next retry
) STRICT;
CREATE INDEX invocations_automation ON invocations (automation_id, created_at);
CREATE INDEX invocations_request ON invocations (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX invocations_root ON invocations (root_request_id) WHERE root_request_id IS NOT NULL;
CREATE INDEX invocations_unfinished ON invocations (id) WHERE status IN ('queued', 'running');
CREATE INDEX invocations_dead ON invocations (created_at) WHERE blocking = 0 AND status IN ('failed', 'timeout');

CREATE TABLE injections (
  -- Memories considered for a task, best first: whether each was injected, and whether the answer used it.
  id               TEXT PRIMARY KEY,   -- inj_…
  invocation_id    TEXT NOT NULL,      -- invocations: the run that decided
  request_id       TEXT NOT NULL,      -- requests: the task's request
  root_request_id  TEXT NOT NULL,
  execution_id     TEXT,               -- executions: the fast model's run, if any
  rank             INTEGER NOT NULL,   -- 1, 2, … in recall's order
  item_kind        TEXT NOT NULL,      -- event, fact, observation, mental_model, episode, entity
  item_id          TEXT NOT NULL,
  text_sha256      TEXT NOT NULL,      -- hash of the text at that time
  score            REAL NOT NULL,      -- recall's score
  probability      REAL NOT NULL,      -- estimated relevance
  why              TEXT NOT NULL DEFAULT '',   -- how it was found, and why it was chosen or left out
  decided_by       TEXT NOT NULL CHECK (decided_by IN ('model', 'triage')),
  injected         INTEGER NOT NULL CHECK (injected IN (0, 1)),
  used             INTEGER CHECK (used IN (0, 1)),   -- NULL before the answer, or if not injected
  used_by          TEXT CHECK (used_by IN ('id', 'words')),   -- how use was detected
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (invocation_id, rank)
) STRICT;
CREATE INDEX injections_root ON injections (root_request_id);
CREATE INDEX injections_request ON injections (request_id);
CREATE INDEX injections_item ON injections (item_id) WHERE injected;
CREATE INDEX injections_created ON injections (created_at);

CREATE TABLE usage (
  -- Tokens and cost, one row per model call. No content; kept by `nexus forget`.
  id                  TEXT PRIMARY KEY,   -- use_…
  request_id          TEXT NOT NULL,
  root_request_id     TEXT NOT NULL,
  execution_id        TEXT,
  invocation_id       TEXT,
  role                TEXT,
  provider            TEXT NOT NULL,
  model               TEXT NOT NULL,
  input_tokens        INTEGER NOT NULL DEFAULT 0,   -- fresh: neither read from nor written to a cache
  cache_read_tokens   INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens  INTEGER NOT NULL DEFAULT 0,
  output_tokens       INTEGER NOT NULL DEFAULT 0,
  cost_microusd       INTEGER,                      -- NULL if the price is unknown
  created_at          TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  span_id             TEXT,                         -- spans: the model call
  automation          TEXT,                         -- the automation that caused it, if any
  estimated           INTEGER NOT NULL DEFAULT 0 CHECK (estimated IN (0, 1))   -- 1 if the provider's count is unknown
) STRICT;
CREATE INDEX usage_root ON usage (root_request_id);
CREATE INDEX usage_execution ON usage (execution_id) WHERE execution_id IS NOT NULL;
CREATE INDEX usage_created ON usage (created_at);
CREATE INDEX usage_estimated ON usage (created_at) WHERE estimated;

CREATE TABLE usage_days (
  -- Totals of `usage` by UTC day, model, role and automation, kept by triggers.
  day                 TEXT NOT NULL,
  provider            TEXT NOT NULL,
  model               TEXT NOT NULL,
  role                TEXT NOT NULL,      -- empty if unknown
  automation          TEXT NOT NULL,      -- empty if none
  calls               INTEGER NOT NULL,
  input_tokens        INTEGER NOT NULL,
  cache_read_tokens   INTEGER NOT NULL,
  cache_write_tokens  INTEGER NOT NULL,
  output_tokens       INTEGER NOT NULL,
  cost_microusd       INTEGER NOT NULL,
  unpriced_calls      INTEGER NOT NULL,   -- calls with unknown price, not in cost_microusd
  PRIMARY KEY (day, provider, model, role, automation)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_roots (
  -- Totals of `usage` by root request, kept by triggers.
  root_request_id     TEXT PRIMARY KEY,
  day                 TEXT NOT NULL,      -- of the first call
  calls               INTEGER NOT NULL,
  input_tokens        INTEGER NOT NULL,
  cache_read_tokens   INTEGER NOT NULL,
  cache_write_tokens  INTEGER NOT NULL,
  output_tokens       INTEGER NOT NULL,
  cost_microusd       INTEGER NOT NULL,
  unpriced_calls      INTEGER NOT NULL    -- calls with unknown price, not in cost_microusd
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
  -- Model calls refused because a budget was used up. No content.
  id               TEXT PRIMARY KEY,   -- bgt_…
  budget           TEXT NOT NULL CHECK (budget IN ('request', 'automation', 'guest', 'guests', 'day', 'month')),
  unit             TEXT NOT NULL CHECK (unit IN ('usd', 'tokens')),
  automation       TEXT,               -- the automation, for an automation's budget
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
  -- Estimates for model calls in progress, reserved from budgets and billed if their process dies.
  execution_id     TEXT PRIMARY KEY,   -- executions: one call at a time
  usage_id         TEXT NOT NULL,      -- usage: the row it becomes
  request_id       TEXT NOT NULL,
  root_request_id  TEXT NOT NULL,
  invocation_id    TEXT,
  role             TEXT,
  provider         TEXT NOT NULL,
  model            TEXT NOT NULL,
  automation       TEXT,               -- the automation that caused it, if any
  input_tokens     INTEGER NOT NULL,
  output_tokens    INTEGER NOT NULL,
  cost_microusd    INTEGER,            -- NULL if the price is unknown
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE models (
  -- Known capabilities of each model, from its server, a test or an error.
  name        TEXT PRIMARY KEY,   -- provider/model, as in config.toml
  address     TEXT NOT NULL,      -- server address; results from another address aren't used
  known_json  TEXT NOT NULL,      -- its capabilities
  updated_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE channels (
  -- State of each channel. Its settings are in config.toml; some can be changed while it runs.
  name             TEXT PRIMARY KEY,
  paused           INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  status           TEXT NOT NULL DEFAULT 'stopped'
                   CHECK (status IN ('starting', 'connected', 'waiting', 'paused', 'stopped')),
  reason           TEXT,               -- the last error, if it waits
  restarts         INTEGER NOT NULL DEFAULT 0,   -- times it ended unexpectedly since it last connected
  cursor_json      TEXT,               -- read position, defined by the adapter
  queued_seq       INTEGER,            -- events up to this seq are in deliveries
  last_message_at  TEXT,               -- time of the last inbound message
  updated_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  answer           TEXT CHECK (answer IN ('addressed', 'always', 'never')),   -- overrides config.toml
  quiet_hours      TEXT,               -- overrides config.toml; empty: none
  zone             TEXT                -- of the quiet hours; overrides config.toml
) STRICT;

CREATE TABLE deliveries (
  -- Outgoing messages and their delivery status. Their text is in events.events.
  event_id     TEXT PRIMARY KEY,       -- events.events: the message; also the idempotency key for adapters
  channel      TEXT NOT NULL,
  thread_id    TEXT NOT NULL,          -- events.threads: messages in a thread are sent in order
  status       TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'sent', 'failed')),
  attempts     INTEGER NOT NULL DEFAULT 0,
  next_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),   -- earliest next attempt
  external_id  TEXT,                   -- the channel's id
  error        TEXT,                   -- error of the last attempt
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  unasked      INTEGER NOT NULL DEFAULT 0 CHECK (unasked IN (0, 1))   -- not an answer: waits in quiet hours
) STRICT;
CREATE INDEX deliveries_waiting ON deliveries (channel, thread_id, created_at) WHERE status = 'waiting';
CREATE INDEX deliveries_failed ON deliveries (channel) WHERE status = 'failed';

CREATE TABLE set_aside (
  -- Inbound messages that wait to be processed (reason `received`) or couldn't be, and can be retried.
  id           TEXT PRIMARY KEY,       -- asi_…
  channel      TEXT NOT NULL,
  external_id  TEXT NOT NULL,          -- the channel's id for the message
  sender       TEXT NOT NULL,          -- as named by the channel
  body_json    TEXT NOT NULL,          -- the message from the adapter
  reason       TEXT NOT NULL,
  created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (channel, external_id)
) STRICT;

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
  call_hash       TEXT NOT NULL,      -- SHA-256 of the tool, its arguments and the file it would change; '': asked before there was one
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
CREATE INDEX approvals_waiting ON approvals (created_at) WHERE status = 'waiting';
CREATE INDEX approvals_rules ON approvals (scope, session_label) WHERE pattern IS NOT NULL;

CREATE TABLE spans (
  -- The trace: stages, hooks, executions, model calls and tool calls, with start and duration.
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
  execution_id     TEXT                -- executions: the run it belongs to, if any
) STRICT;
CREATE INDEX spans_root ON spans (root_request_id, started_at);
CREATE INDEX spans_request ON spans (request_id);

CREATE TABLE push_subscriptions (
  -- Browsers that get notifications. Revoking one deletes its row.
  id            TEXT PRIMARY KEY,   -- psh_…
  endpoint      TEXT NOT NULL UNIQUE,   -- the browser's push service
  p256dh        TEXT NOT NULL,      -- the browser's public key
  auth          TEXT NOT NULL,      -- the browser's authentication secret
  session       TEXT NOT NULL DEFAULT '',   -- digest of the login that subscribed; logging out deletes the row
  browser       TEXT NOT NULL DEFAULT '',   -- its name, such as Chrome on Android
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  last_sent_at  TEXT,
  failure       TEXT                -- why the last notification didn't arrive
) STRICT;

CREATE TABLE push_sent (
  -- What browsers were notified of, so that nothing is sent twice.
  item_id     TEXT PRIMARY KEY,     -- events.events, approvals or dispatches
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT, WITHOUT ROWID;

CREATE TABLE forgets (
  -- Record of each forget: ids and counts, no content.
  id            TEXT PRIMARY KEY,   -- fgt_…
  target_kind   TEXT NOT NULL CHECK (target_kind IN ('entity', 'fact', 'event', 'thread', 'scope', 'range', 'import')),
  target        TEXT NOT NULL,      -- the id, the channel of the scope, or the range as START/END
  counts_json   TEXT NOT NULL DEFAULT '{}',   -- rows deleted by table, emptied columns, files
  actor         TEXT NOT NULL,
  created_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  completed_at  TEXT                -- NULL while unfinished; resumable after a crash
) STRICT;

CREATE TABLE forget_items (
  -- The plan of an unfinished forget, kept across crashes.
  forget_id  TEXT NOT NULL REFERENCES forgets (id),
  kind       TEXT NOT NULL,   -- a table, a table.column to empty, or files
  item_id    TEXT NOT NULL,   -- a row's key (a JSON array if it has several columns), or a path
  PRIMARY KEY (forget_id, kind, item_id)
) STRICT, WITHOUT ROWID;
