-- Turns that have ended are read once and kept: a session's revision says when they have to be read again.
ALTER TABLE agent_sessions ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
CREATE INDEX agent_turns_summary ON agent_turns (session_id, position) WHERE kind = 'summary';
CREATE INDEX agent_turns_replacing ON agent_turns (session_id, position) WHERE replaces_from IS NOT NULL;

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
