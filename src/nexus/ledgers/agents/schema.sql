-- agents.db: every agent session in full: turns, messages and tool calls.

CREATE TABLE schema_migrations (
  -- Migrations applied to this file, each committed together with its row.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE agent_sessions (
  -- Agent conversations, one per session label; also those that were imported from other programs.
  id                 TEXT PRIMARY KEY,                 -- ses_…
  label              TEXT NOT NULL UNIQUE,             -- the session queue's key; imported: the program and its id there
  source             TEXT NOT NULL DEFAULT 'nexus',    -- nexus, or the program it was imported from
  role               TEXT NOT NULL,                    -- manager, worker, meeseeks, …
  model              TEXT,
  project            TEXT,                             -- imported: the folder that the agent worked in
  thread_id          TEXT,                             -- events.threads: the conversation it serves
  parent_session_id  TEXT REFERENCES agent_sessions (id),
  metadata_json      TEXT NOT NULL DEFAULT '{}',
  created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  forked_at_position INTEGER,                          -- a fork starts with its parent's messages before this position
  title              TEXT,                             -- what the owner calls it
  archived_at        TEXT,                             -- hidden from lists since then, until it is used again
  revision           INTEGER NOT NULL DEFAULT 0        -- rises when a turn that has ended is changed or deleted
) STRICT;
CREATE INDEX agent_sessions_parent ON agent_sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
CREATE INDEX agent_sessions_thread ON agent_sessions (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX agent_sessions_kind ON agent_sessions (
  CASE
    WHEN source <> 'nexus' THEN 'imported'
    WHEN substr(label, 1, 4) = 'run:' THEN 'runs'
    WHEN substr(label, 1, 7) = 'worker:' OR substr(label, 1, 10) = 'subworker:' THEN 'workers'
    WHEN substr(label, 1, 9) = 'meeseeks:' OR role <> 'manager' THEN 'automations'
    ELSE 'people' END,
  updated_at, id
);

CREATE TABLE agent_turns (
  -- One exchange: a message and the run that answered it. A compaction summary is a turn too.
  id            TEXT PRIMARY KEY,                    -- trn_…
  session_id    TEXT NOT NULL REFERENCES agent_sessions (id),
  position      INTEGER NOT NULL,                    -- 0, 1, 2, …; a fork continues its parent's numbering
  kind          TEXT NOT NULL DEFAULT 'exchange' CHECK (kind IN ('exchange', 'summary')),
  status        TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  request_id    TEXT,                                -- runtime.requests
  execution_id  TEXT,                                -- runtime.executions; an imported turn has no run
  error         TEXT,
  started_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  ended_at      TEXT,
  summarises_through INTEGER,                        -- the last position a summary covers
  replaces_from INTEGER,                             -- turns from this position up to this one are replaced by it
  UNIQUE (session_id, position)
) STRICT;
CREATE INDEX agent_turns_request ON agent_turns (request_id) WHERE request_id IS NOT NULL;
CREATE UNIQUE INDEX agent_turns_execution ON agent_turns (execution_id, kind) WHERE execution_id IS NOT NULL;
CREATE INDEX agent_turns_summary ON agent_turns (session_id, position) WHERE kind = 'summary';
CREATE INDEX agent_turns_replacing ON agent_turns (session_id, position) WHERE replaces_from IS NOT NULL;

CREATE TABLE agent_messages (
  -- Every message of a session, exactly as the model saw it.
  id          TEXT PRIMARY KEY,   -- msg_…
  session_id  TEXT NOT NULL REFERENCES agent_sessions (id),
  turn_id     TEXT NOT NULL REFERENCES agent_turns (id),
  position    INTEGER NOT NULL,   -- within the session; a fork continues its parent's numbering
  role        TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
  content     TEXT NOT NULL,      -- the readable text
  parts_json  TEXT,               -- the exact parts, used to rebuild the history; imported: none
  model       TEXT,
  event_id    TEXT,               -- events.events: the message it carries, if any
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (session_id, position)
) STRICT;
CREATE INDEX agent_messages_turn ON agent_messages (turn_id);
CREATE INDEX agent_messages_event ON agent_messages (event_id) WHERE event_id IS NOT NULL;

CREATE TABLE agent_tool_calls (
  -- Every tool call, with arguments and result. An imported one without a result counts as cancelled.
  id              TEXT PRIMARY KEY,   -- tcl_…
  session_id      TEXT NOT NULL REFERENCES agent_sessions (id),
  turn_id         TEXT NOT NULL REFERENCES agent_turns (id),
  message_id      TEXT REFERENCES agent_messages (id),
  call_id         TEXT,               -- the provider's id for the call
  tool_name       TEXT NOT NULL,
  arguments_json  TEXT NOT NULL DEFAULT '{}',
  result          TEXT,
  status          TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  error           TEXT,
  started_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  ended_at        TEXT,
  position        INTEGER             -- of the message that requested it
) STRICT;
CREATE INDEX agent_tool_calls_turn ON agent_tool_calls (turn_id);
CREATE UNIQUE INDEX agent_tool_calls_call ON agent_tool_calls (turn_id, position, call_id)
  WHERE call_id IS NOT NULL;
CREATE INDEX agent_tool_calls_message ON agent_tool_calls (message_id) WHERE message_id IS NOT NULL;

CREATE TRIGGER revised_by_new_turn AFTER INSERT ON agent_turns
WHEN new.status <> 'running'
  OR EXISTS (SELECT 1 FROM agent_turns WHERE session_id = new.session_id AND position > new.position)
BEGIN
  UPDATE agent_sessions SET revision = revision + 1 WHERE id = new.session_id;
END;
CREATE TRIGGER revised_by_changed_turn AFTER UPDATE ON agent_turns WHEN old.status <> 'running'
BEGIN
  UPDATE agent_sessions SET revision = revision + 1 WHERE id IN (old.session_id, new.session_id);
END;
CREATE TRIGGER revised_by_deleted_turn AFTER DELETE ON agent_turns
BEGIN
  UPDATE agent_sessions SET revision = revision + 1 WHERE id = old.session_id;
END;
CREATE TRIGGER revised_by_new_message AFTER INSERT ON agent_messages
WHEN (SELECT status FROM agent_turns WHERE id = new.turn_id) IS NOT 'running'
BEGIN
  UPDATE agent_sessions SET revision = revision + 1 WHERE id = new.session_id;
END;
CREATE TRIGGER revised_by_changed_message AFTER UPDATE ON agent_messages
WHEN (SELECT status FROM agent_turns WHERE id = old.turn_id) IS NOT 'running'
BEGIN
  UPDATE agent_sessions SET revision = revision + 1 WHERE id IN (old.session_id, new.session_id);
END;
CREATE TRIGGER revised_by_deleted_message AFTER DELETE ON agent_messages
WHEN (SELECT status FROM agent_turns WHERE id = old.turn_id) IS NOT 'running'
BEGIN
  UPDATE agent_sessions SET revision = revision + 1 WHERE id = old.session_id;
END;
