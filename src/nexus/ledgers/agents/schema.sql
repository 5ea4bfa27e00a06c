-- agents.db: every agent session in full: turns, messages, tool calls.

CREATE TABLE schema_migrations (
  -- Which migrations this file has seen; each row was committed together with what it did.
  version     INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE TABLE agent_sessions (
  -- Conversations of agents: one for each session label.
  id                 TEXT PRIMARY KEY,                 -- ses_…
  label              TEXT NOT NULL UNIQUE,             -- the session queue's key
  source             TEXT NOT NULL DEFAULT 'nexus',    -- nexus, or the program it was imported from
  role               TEXT NOT NULL,                    -- manager, worker, meeseeks, …
  model              TEXT,
  project            TEXT,
  thread_id          TEXT,                             -- events.threads: the conversation it serves
  parent_session_id  TEXT REFERENCES agent_sessions (id),
  metadata_json      TEXT NOT NULL DEFAULT '{}',
  created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  updated_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  forked_at_position INTEGER                           -- a fork begins with its parent's messages before this
) STRICT;
CREATE INDEX agent_sessions_parent ON agent_sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
CREATE INDEX agent_sessions_thread ON agent_sessions (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX agent_sessions_updated ON agent_sessions (updated_at, id);

CREATE TABLE agent_turns (
  -- One exchange: what was asked and what came of it. A summary made by compaction is a turn too.
  id            TEXT PRIMARY KEY,                    -- trn_…
  session_id    TEXT NOT NULL REFERENCES agent_sessions (id),
  position      INTEGER NOT NULL,                    -- 0, 1, 2, …; a fork goes on from its parent's
  kind          TEXT NOT NULL DEFAULT 'exchange' CHECK (kind IN ('exchange', 'summary')),
  status        TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  request_id    TEXT,                                -- runtime.requests
  execution_id  TEXT,                                -- runtime.executions
  error         TEXT,
  started_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  ended_at      TEXT,
  summarises_through INTEGER,                        -- the last position that a summary stands for
  UNIQUE (session_id, position)
) STRICT;
CREATE INDEX agent_turns_request ON agent_turns (request_id) WHERE request_id IS NOT NULL;
CREATE UNIQUE INDEX agent_turns_execution ON agent_turns (execution_id, kind) WHERE execution_id IS NOT NULL;

CREATE TABLE agent_messages (
  -- Every message of a session, with its parts as the model saw them.
  id          TEXT PRIMARY KEY,   -- msg_…
  session_id  TEXT NOT NULL REFERENCES agent_sessions (id),
  turn_id     TEXT NOT NULL REFERENCES agent_turns (id),
  position    INTEGER NOT NULL,   -- within the session; a fork goes on from its parent's
  role        TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
  content     TEXT NOT NULL,      -- the readable text
  parts_json  TEXT,               -- the exact parts, from which history is reloaded
  model       TEXT,
  event_id    TEXT,               -- events.events: the message that it carries, if any
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  UNIQUE (session_id, position)
) STRICT;
CREATE INDEX agent_messages_turn ON agent_messages (turn_id);
CREATE INDEX agent_messages_event ON agent_messages (event_id) WHERE event_id IS NOT NULL;

CREATE TABLE agent_tool_calls (
  -- Every tool that an agent called, with what it gave and what it got.
  id              TEXT PRIMARY KEY,   -- tcl_…
  session_id      TEXT NOT NULL REFERENCES agent_sessions (id),
  turn_id         TEXT NOT NULL REFERENCES agent_turns (id),
  message_id      TEXT REFERENCES agent_messages (id),
  call_id         TEXT,               -- the provider's own id of the call
  tool_name       TEXT NOT NULL,
  arguments_json  TEXT NOT NULL DEFAULT '{}',
  result          TEXT,
  status          TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  error           TEXT,
  started_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  ended_at        TEXT,
  position        INTEGER             -- of the message that asked for it
) STRICT;
CREATE INDEX agent_tool_calls_turn ON agent_tool_calls (turn_id);
CREATE UNIQUE INDEX agent_tool_calls_call ON agent_tool_calls (turn_id, position, call_id)
  WHERE call_id IS NOT NULL;
CREATE INDEX agent_tool_calls_message ON agent_tool_calls (message_id) WHERE message_id IS NOT NULL;
