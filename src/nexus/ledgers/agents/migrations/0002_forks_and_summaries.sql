-- Forks share their parent's messages, summaries say what they stand for, and whatever a run writes has a
-- key, so that a run that is repeated after a crash writes it once.

ALTER TABLE agent_sessions ADD COLUMN forked_at_position INTEGER;

ALTER TABLE agent_turns ADD COLUMN summarises_through INTEGER;
CREATE UNIQUE INDEX agent_turns_execution ON agent_turns (execution_id, kind) WHERE execution_id IS NOT NULL;

ALTER TABLE agent_tool_calls ADD COLUMN position INTEGER;
CREATE UNIQUE INDEX agent_tool_calls_call ON agent_tool_calls (turn_id, position, call_id)
  WHERE call_id IS NOT NULL;
