-- name: counts
SELECT 'sessions', count(*) FROM agent_sessions UNION ALL SELECT 'messages', count(*) FROM agent_messages

-- name: session
SELECT id, label, role, model, thread_id, parent_session_id, forked_at_position, created_at, updated_at, title,
       archived_at, source
FROM agent_sessions WHERE label = ?

-- name: newest_sessions_of_people
SELECT id, label, role, model, thread_id, parent_session_id, forked_at_position, created_at, updated_at, title,
       archived_at, source
FROM agent_sessions
WHERE archived_at IS NULL AND CASE
    WHEN source <> 'nexus' THEN 'imported'
    WHEN substr(label, 1, 4) = 'run:' THEN 'runs'
    WHEN substr(label, 1, 7) = 'worker:' OR substr(label, 1, 10) = 'subworker:' THEN 'workers'
    WHEN substr(label, 1, 9) = 'meeseeks:' OR role <> 'manager' THEN 'automations'
    ELSE 'people' END = 'people'
ORDER BY updated_at DESC, id DESC LIMIT ?

-- name: listed_sessions
-- Whose they are is written as in the index agent_sessions_kind.
SELECT session.id, session.label, session.role, session.source, session.model, parent.label,
       session.created_at, session.updated_at, session.thread_id, session.title, session.archived_at,
       (SELECT coalesce(max(position) + 1, 0) FROM agent_turns WHERE session_id = session.id),
       (SELECT substr(content, 1, 200) FROM agent_messages
        WHERE session_id = session.id AND role IN ('user', 'assistant') AND content <> ''
        ORDER BY position DESC LIMIT 1),
       (SELECT event_id FROM agent_messages
        WHERE session_id = session.id AND role IN ('user', 'assistant') AND content <> ''
        ORDER BY position DESC LIMIT 1),
       (SELECT substr(content, 1, 200) FROM agent_messages
        WHERE session_id = session.id AND role = 'user' ORDER BY position LIMIT 1),
       (SELECT event_id FROM agent_messages
        WHERE session_id = session.id AND role = 'user' ORDER BY position LIMIT 1)
FROM agent_sessions AS session LEFT JOIN agent_sessions AS parent ON parent.id = session.parent_session_id
WHERE CASE
    WHEN session.source <> 'nexus' THEN 'imported'
    WHEN substr(session.label, 1, 4) = 'run:' THEN 'runs'
    WHEN substr(session.label, 1, 7) = 'worker:' OR substr(session.label, 1, 10) = 'subworker:' THEN 'workers'
    WHEN substr(session.label, 1, 9) = 'meeseeks:' OR session.role <> 'manager' THEN 'automations'
    ELSE 'people' END = :kind
  AND (session.updated_at, session.id) < (:at, :id) AND session.updated_at >= :since
  AND (:role IS NULL OR session.role = :role)
  AND (:archived IS NULL OR (session.archived_at IS NOT NULL) = :archived)
  AND (:like IS NULL OR session.title LIKE :like ESCAPE '\' OR session.label LIKE :like ESCAPE '\'
    OR session.thread_id IN (SELECT value FROM json_each(:threads))
    OR session.id IN (
      SELECT session_id FROM agent_messages WHERE event_id IN (SELECT value FROM json_each(:events))))
ORDER BY session.updated_at DESC, session.id DESC LIMIT :limit

-- name: titled_sessions
SELECT label, title, thread_id, source,
       (SELECT substr(content, 1, 200) FROM agent_messages
        WHERE session_id = session.id AND role = 'user' ORDER BY position LIMIT 1),
       (SELECT event_id FROM agent_messages
        WHERE session_id = session.id AND role = 'user' ORDER BY position LIMIT 1)
FROM agent_sessions AS session WHERE label IN (SELECT value FROM json_each(?))

-- name: rename_session
UPDATE agent_sessions SET title = :title WHERE id = :id

-- name: archive_session
UPDATE agent_sessions SET archived_at = iif(:archived, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), NULL) WHERE id = :id

-- name: events_of_session
SELECT DISTINCT event_id FROM agent_messages WHERE session_id = ? AND event_id IS NOT NULL

-- name: add_session
INSERT INTO agent_sessions (id, label, role, model, thread_id, parent_session_id, forked_at_position)
VALUES (:id, :label, :role, :model, :thread_id, :parent_session_id, :forked_at_position)

-- name: touch_session
UPDATE agent_sessions SET updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), archived_at = NULL WHERE id = ?

-- name: end_of_history
-- Where the messages of turns that have ended end. What is under way belongs to no fork.
SELECT coalesce(
  (SELECT max(message.position) + 1 FROM agent_messages AS message
   WHERE message.session_id = session.id AND EXISTS (
     SELECT 1 FROM agent_turns WHERE id = message.turn_id AND status <> 'running')),
  session.forked_at_position, 0)
FROM agent_sessions AS session WHERE id = ?

-- name: turns_through
-- The exchanges of a session that ended well, up to that of a run, the newest first.
SELECT turn.execution_id, turn.request_id
FROM agent_turns AS turn JOIN agent_sessions AS session ON session.id = turn.session_id
WHERE session.label = :label AND turn.kind = 'exchange' AND turn.status = 'done'
  AND turn.execution_id IS NOT NULL AND turn.request_id IS NOT NULL
  AND turn.position <= (SELECT position FROM agent_turns WHERE execution_id = :through AND kind = 'exchange')
ORDER BY turn.position DESC LIMIT :limit

-- name: turns_of_requests
SELECT turn.execution_id, turn.request_id
FROM agent_turns AS turn JOIN agent_sessions AS session ON session.id = turn.session_id
WHERE session.label = ? AND turn.request_id IN (SELECT value FROM json_each(?))
  AND turn.kind = 'exchange' AND turn.status = 'done' AND turn.execution_id IS NOT NULL
ORDER BY turn.position

-- name: results_for_requests
-- What tools gave to the agents that worked for some requests; not what automations' own agents got.
SELECT call.tool_name, call.arguments_json, call.result
FROM agent_tool_calls AS call
JOIN agent_turns AS turn ON turn.id = call.turn_id
JOIN agent_sessions AS session ON session.id = turn.session_id
WHERE turn.request_id IN (SELECT value FROM json_each(:requests)) AND call.status = 'done'
  AND call.result IS NOT NULL AND session.label NOT LIKE 'meeseeks:%'
ORDER BY call.started_at DESC LIMIT :limit

-- name: results_of_tool
SELECT call.result
FROM agent_turns AS turn JOIN agent_tool_calls AS call ON call.turn_id = turn.id
WHERE turn.request_id = :request_id AND call.tool_name = :tool AND call.status = 'done' AND call.result IS NOT NULL
ORDER BY call.position, call.id

-- name: requests_in_session
SELECT DISTINCT turn.request_id
FROM agent_turns AS turn JOIN agent_sessions AS session ON session.id = turn.session_id
WHERE session.label = ? AND turn.request_id IS NOT NULL

-- name: requests_in_lineage
-- Of some sessions and of those that they were forked from.
WITH RECURSIVE line (session_id) AS (
  SELECT id FROM agent_sessions WHERE label IN (SELECT value FROM json_each(?))
  UNION
  SELECT fork.parent_session_id FROM line JOIN agent_sessions AS fork ON fork.id = line.session_id
  WHERE fork.parent_session_id IS NOT NULL
)
SELECT DISTINCT turn.request_id FROM line CROSS JOIN agent_turns AS turn ON turn.session_id = line.session_id
WHERE turn.request_id IS NOT NULL

-- name: results_of_others
-- A server that fails may say anything too; what we refused ourselves is cancelled: it was never made.
SELECT call.tool_name, call.arguments_json, coalesce(call.result, call.error)
FROM agent_turns AS turn JOIN agent_tool_calls AS call ON call.turn_id = turn.id
WHERE turn.request_id IN (SELECT value FROM json_each(:requests))
  AND (call.tool_name IN (SELECT value FROM json_each(:tools)) OR instr(call.tool_name, :mark) > 0)
  AND (call.result IS NOT NULL OR (call.error IS NOT NULL AND call.status = 'failed'))
ORDER BY call.id DESC

-- name: answers_with_search
-- Inside a text the quote would be escaped.
SELECT message.parts_json FROM agent_turns AS turn JOIN agent_messages AS message ON message.turn_id = turn.id
WHERE turn.request_id IN (SELECT value FROM json_each(?)) AND message.role = 'assistant'
  AND instr(message.parts_json, 'builtin-tool-return"') > 0
ORDER BY message.id DESC

-- name: tools_called_for
-- By agents and by automations' own agents: what any of them read may be in what was learned.
SELECT DISTINCT call.tool_name FROM agent_turns AS turn JOIN agent_tool_calls AS call ON call.turn_id = turn.id
WHERE turn.request_id IN (SELECT value FROM json_each(?)) ORDER BY call.tool_name LIMIT ?

-- name: calls_of_automation
-- In sessions whose labels begin like that, in order.
SELECT call.tool_name, substr(call.arguments_json, 1, 300), call.status,
       CAST(round((julianday(coalesce(call.ended_at, :until)) - julianday(call.started_at)) * 86400000) AS INTEGER)
FROM agent_turns AS turn
JOIN agent_sessions AS session ON session.id = turn.session_id
JOIN agent_tool_calls AS call ON call.turn_id = turn.id
WHERE turn.request_id = :request_id AND substr(session.label, 1, length(:label)) = :label
  AND call.started_at >= :since AND call.started_at <= :until
ORDER BY call.started_at, call.id LIMIT :limit

-- name: end_of_turn
SELECT max(message.position) + 1 FROM agent_messages AS message JOIN agent_turns AS turn ON turn.id = message.turn_id
WHERE turn.session_id = ? AND turn.execution_id = ? AND turn.kind = 'exchange'

-- name: next_position
-- No position before a fork is used again, even where its messages were forgotten: the fork would see it.
SELECT max(
  coalesce((SELECT max(position) + 1 FROM agent_messages WHERE session_id = session.id), 0),
  coalesce(forked_at_position, 0),
  coalesce((SELECT max(forked_at_position) FROM agent_sessions WHERE parent_session_id = session.id), 0))
FROM agent_sessions AS session WHERE id = ?

-- name: next_turn_position
WITH RECURSIVE line (session_id, until) AS (
  SELECT :session_id, 9223372036854775807
  UNION ALL
  SELECT fork.parent_session_id, fork.forked_at_position
  FROM line JOIN agent_sessions AS fork ON fork.id = line.session_id
  WHERE fork.forked_at_position IS NOT NULL
)
SELECT coalesce(max(turn.position) + 1, 0)
FROM line JOIN agent_turns AS turn ON turn.session_id = line.session_id
WHERE turn.session_id = :session_id
   OR EXISTS (SELECT 1 FROM agent_messages WHERE turn_id = turn.id AND position < line.until)
   -- A turn that was killed before its first message holds its place all the same.
   OR NOT EXISTS (SELECT 1 FROM agent_messages WHERE turn_id = turn.id)

-- name: turn_of_execution
SELECT id, session_id, position, (SELECT min(position) FROM agent_messages WHERE turn_id = turn.id)
FROM agent_turns AS turn WHERE execution_id = ? AND kind = ?

-- name: turn_stands
-- Whether no later turn took the place of a run's.
SELECT NOT EXISTS (SELECT 1 FROM agent_turns AS later
                   WHERE later.session_id = turn.session_id AND later.position > turn.position
                     AND later.replaces_from <= turn.position)
FROM agent_turns AS turn WHERE execution_id = ? AND kind = 'exchange'

-- name: turns_of_run
SELECT kind, summarises_through FROM agent_turns WHERE execution_id = ?

-- name: open_turn
INSERT INTO agent_turns
  (id, session_id, position, kind, request_id, execution_id, summarises_through, replaces_from)
VALUES (:id, :session_id, :position, :kind, :request_id, :execution_id, :summarises_through, (
  SELECT position FROM agent_turns
  WHERE execution_id = :replaces AND kind = 'exchange' AND session_id = :session_id))

-- name: start_over
-- A summary of nothing, made by no run: the history begins behind it.
INSERT INTO agent_turns
  (id, session_id, position, kind, status, request_id, summarises_through, ended_at)
VALUES (:id, :session_id, :position, 'summary', 'done', :request_id, :position - 1,
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))

-- name: end_turn
UPDATE agent_turns
SET status = :status, error = :error, ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = :id AND status = 'running'

-- name: open_turns_of_run
SELECT id FROM agent_turns WHERE execution_id = ? AND status = 'running'

-- name: end_calls_of_turn
UPDATE agent_tool_calls
SET status = 'cancelled', ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE turn_id = ? AND status = 'running'

-- name: append_message
-- A run that is resumed appends the same again; the row then stays as it is. A model's answer always does:
-- what comes later is from a process that has lost the run.
INSERT INTO agent_messages (id, session_id, turn_id, position, role, content, parts_json, model, event_id)
VALUES (:id, :session_id, :turn_id, :position, :role, :content, :parts_json, :model, :event_id)
ON CONFLICT (session_id, position) DO UPDATE
SET role = excluded.role, content = excluded.content, parts_json = excluded.parts_json,
    model = excluded.model, event_id = excluded.event_id
WHERE turn_id = excluded.turn_id
  AND (role, content, parts_json, model, event_id)
   IS NOT (excluded.role, excluded.content, excluded.parts_json, excluded.model, excluded.event_id)
  AND (role <> 'assistant' OR agent_messages.model IS NULL)

-- name: message_at
SELECT id, turn_id FROM agent_messages WHERE session_id = ? AND position = ?

-- name: parts_at
SELECT parts_json FROM agent_messages WHERE session_id = ? AND position = ? AND turn_id = ?

-- name: replaced_turns
-- Ranges of positions: from the first on, and before the second; then the events that were replaced. A turn
-- replaces turns of its own session, and counts once its messages do.
WITH RECURSIVE line (session_id, until) AS (
  SELECT :session_id, :before
  UNION ALL
  SELECT fork.parent_session_id, fork.forked_at_position
  FROM line JOIN agent_sessions AS fork ON fork.id = line.session_id
  WHERE fork.forked_at_position IS NOT NULL
)
SELECT turn.replaces_from, turn.position,
       (SELECT json_group_array(message.event_id)
        FROM agent_turns AS old CROSS JOIN agent_messages AS message ON message.turn_id = old.id
        WHERE old.session_id = turn.session_id AND old.position >= turn.replaces_from
          AND old.position < turn.position AND message.event_id IS NOT NULL)
FROM line CROSS JOIN agent_turns AS turn ON turn.session_id = line.session_id
WHERE turn.replaces_from IS NOT NULL AND (
  turn.id = :own OR EXISTS (SELECT 1 FROM agent_messages WHERE turn_id = turn.id AND position < line.until))

-- name: summaries
-- The newest first. Where the session was started over, also the request for it.
WITH RECURSIVE line (session_id, until) AS (
  SELECT :session_id, :before
  UNION ALL
  SELECT fork.parent_session_id, fork.forked_at_position
  FROM line JOIN agent_sessions AS fork ON fork.id = line.session_id
  WHERE fork.forked_at_position IS NOT NULL
)
SELECT turn.id, turn.summarises_through, iif(turn.execution_id IS NULL, turn.request_id, NULL)
FROM line CROSS JOIN agent_turns AS turn ON turn.session_id = line.session_id
WHERE turn.kind = 'summary' AND turn.status = 'done' AND turn.summarises_through IS NOT NULL
  AND CASE
    -- Where the session was started over: for everybody, and for turns that were opened after it.
    WHEN turn.execution_id IS NULL AND line.session_id = :session_id THEN turn.position < :opened_at
    WHEN turn.execution_id IS NULL THEN EXISTS (
      SELECT 1 FROM agent_turns AS next JOIN agent_messages AS message ON message.turn_id = next.id
      WHERE next.session_id = turn.session_id AND next.position > turn.position
        AND message.position < line.until)
    ELSE (:made_by IS NULL OR turn.request_id IN (SELECT value FROM json_each(:made_by)))
      AND EXISTS (SELECT 1 FROM agent_messages WHERE turn_id = turn.id AND position < line.until)
  END
  AND NOT EXISTS (SELECT 1 FROM json_each(:replaced) AS range
                  WHERE turn.position >= range.value ->> 0 AND turn.position < range.value ->> 1)
ORDER BY turn.position DESC

-- name: summarisers
WITH RECURSIVE line (session_id) AS (
  SELECT :session_id
  UNION
  SELECT fork.parent_session_id FROM line JOIN agent_sessions AS fork ON fork.id = line.session_id
  WHERE fork.forked_at_position IS NOT NULL
)
SELECT DISTINCT turn.request_id
-- CROSS: the few sessions of the line first, then their turns, instead of every turn of the home.
FROM line CROSS JOIN agent_turns AS turn ON turn.session_id = line.session_id
WHERE turn.kind = 'summary' AND turn.request_id IS NOT NULL AND turn.execution_id IS NOT NULL

-- name: failed_summaries
SELECT count(*) FROM agent_turns AS turn
WHERE session_id = :session_id AND kind = 'summary' AND status = 'failed' AND position < :position
  AND NOT EXISTS (
    SELECT 1 FROM agent_turns AS made
    WHERE made.session_id = turn.session_id AND made.kind = 'summary' AND made.status = 'done'
      AND made.position > turn.position AND made.position < :position)

-- name: messages_of_turn
SELECT id, turn_id, position, role, content, parts_json, model, event_id, created_at
FROM agent_messages WHERE turn_id = ? ORDER BY position

-- name: transcript
SELECT message.id, message.turn_id, message.position, message.role, substr(message.content, 1, :most),
       length(message.content), message.model, message.event_id, message.created_at, turn.kind, turn.status,
       turn.error, turn.request_id, turn.execution_id,
       EXISTS (SELECT 1 FROM agent_turns AS later
               WHERE later.session_id = turn.session_id AND later.position > turn.position
                 AND later.replaces_from <= turn.position) AS replaced
FROM agent_messages AS message JOIN agent_turns AS turn ON turn.id = message.turn_id
WHERE message.session_id = :session_id AND message.position < :before AND (:replaced OR NOT replaced)
ORDER BY message.position DESC LIMIT :limit

-- name: asked_last
-- The newest message of a person that still stands, and the run that answers it.
SELECT message.event_id, turn.execution_id, turn.request_id
FROM agent_messages AS message JOIN agent_turns AS turn ON turn.id = message.turn_id
WHERE message.session_id = :session_id AND message.role = 'user' AND message.event_id IS NOT NULL
  AND turn.kind = 'exchange' AND turn.execution_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM agent_turns AS later
                  WHERE later.session_id = turn.session_id AND later.position > turn.position
                    AND later.replaces_from <= turn.position)
ORDER BY message.position DESC LIMIT 1

-- name: whole_message
SELECT message.id, message.turn_id, message.position, message.role, message.content, length(message.content),
       message.model, message.event_id, message.created_at, turn.kind, turn.status, turn.error,
       turn.request_id, turn.execution_id,
       EXISTS (SELECT 1 FROM agent_turns AS later
               WHERE later.session_id = turn.session_id AND later.position > turn.position
                 AND later.replaces_from <= turn.position)
FROM agent_messages AS message JOIN agent_turns AS turn ON turn.id = message.turn_id WHERE message.id = ?

-- name: messages_of_run
SELECT message.id, message.turn_id, message.position, message.role, substr(message.content, 1, :most),
       length(message.content), message.model, message.event_id, message.created_at, turn.kind, turn.status,
       turn.error, turn.request_id, turn.execution_id, 0
FROM agent_turns AS turn JOIN agent_messages AS message ON message.turn_id = turn.id
WHERE turn.execution_id = :execution_id AND turn.kind = 'exchange'
ORDER BY message.position

-- name: line
-- A session and those that it was forked from, the first one first, each with where it ends for the session.
WITH RECURSIVE line (session_id, until, depth) AS (
  SELECT :session_id, :before, 0
  UNION ALL
  SELECT fork.parent_session_id, fork.forked_at_position, line.depth + 1
  FROM line JOIN agent_sessions AS fork ON fork.id = line.session_id
  WHERE fork.forked_at_position IS NOT NULL
)
SELECT session.id, session.revision, line.until
FROM line CROSS JOIN agent_sessions AS session ON session.id = line.session_id ORDER BY line.depth DESC

-- name: history
SELECT turn.status, turn.error, turn.position, turn.request_id, turn.execution_id, message.id,
       message.turn_id, message.position, message.role, message.content, message.parts_json, message.model, message.event_id, message.created_at
FROM agent_turns AS turn
LEFT JOIN agent_messages AS message ON message.turn_id = turn.id AND message.position < :until
WHERE turn.session_id = :session_id AND turn.position > :after AND turn.kind = 'exchange'
  AND (turn.request_id IS NULL OR turn.request_id >= :since)
  AND NOT EXISTS (SELECT 1 FROM json_each(:replaced) AS range
                  WHERE turn.position >= range.value ->> 0 AND turn.position < range.value ->> 1)
ORDER BY turn.position, message.position

-- name: begin_call
INSERT INTO agent_tool_calls
  (id, session_id, turn_id, message_id, call_id, tool_name, arguments_json, position)
SELECT :id, :session_id, :turn_id,
       (SELECT id FROM agent_messages WHERE session_id = :session_id AND position = :position),
       :call_id, :tool_name, :arguments, :position
WHERE TRUE
ON CONFLICT DO NOTHING

-- name: recent_result_contains
-- What another program's tools gave is nothing that this home's have shown.
SELECT EXISTS (
  SELECT 1 FROM (
    SELECT tool_name, status, result FROM agent_tool_calls
    WHERE session_id IN (SELECT id FROM agent_sessions WHERE source = 'nexus')
    ORDER BY rowid DESC LIMIT :calls)
  WHERE status = 'done' AND tool_name IN (SELECT value FROM json_each(:tools)) AND instr(result, :text) > 0
)

-- name: call
SELECT id, status, result, error FROM agent_tool_calls WHERE turn_id = ? AND position = ? AND call_id = ?

-- name: done_calls
SELECT position, call_id FROM agent_tool_calls WHERE turn_id = ? AND status = 'done' AND call_id IS NOT NULL

-- name: calls_of_turns
SELECT id, turn_id, position, tool_name, substr(arguments_json, 1, :most), substr(result, 1, :most), status,
       error,
       (position - (SELECT min(position) FROM agent_messages WHERE turn_id = call.turn_id)) || ':' || call_id
FROM agent_tool_calls AS call WHERE turn_id IN (SELECT value FROM json_each(:turns)) ORDER BY rowid

-- name: last_call_of_run
SELECT count(*), max(call.rowid), call.tool_name
FROM agent_turns AS turn JOIN agent_tool_calls AS call ON call.turn_id = turn.id
WHERE turn.execution_id = ? AND turn.kind = 'exchange'

-- name: results_in_session
SELECT result FROM agent_tool_calls
WHERE session_id = (SELECT id FROM agent_sessions WHERE label = ?1)
  AND tool_name IN (SELECT value FROM json_each(?2)) AND status = 'done' AND result IS NOT NULL
ORDER BY position, id

-- name: end_call
UPDATE agent_tool_calls
SET status = :status, result = :result, error = :error, ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = :id AND status = 'running'

-- name: imported_messages
SELECT id, session_id, turn_id FROM agent_messages WHERE id IN (SELECT value FROM json_each(?))

-- name: add_imported_session
INSERT INTO agent_sessions (
  id, label, source, role, model, project, thread_id, parent_session_id, created_at, updated_at)
VALUES (:id, :label, :source, :role, :model, :project, :thread_id, :parent_id, :at, :at)

-- name: adopt_imported_sessions
-- A subagent's session may have come before the one that started it.
UPDATE agent_sessions SET parent_session_id = :id
WHERE label > :label || '/' AND label < :label || '0' AND source = :source AND parent_session_id IS NULL

-- name: last_turn
SELECT id FROM agent_turns WHERE session_id = ? ORDER BY position DESC LIMIT 1

-- name: has_begun
SELECT EXISTS (SELECT 1 FROM agent_messages WHERE turn_id = ? AND role <> 'system')

-- name: add_imported_turn
INSERT INTO agent_turns (id, session_id, position, status, started_at, ended_at)
VALUES (:id, :session_id, :position, 'done', :at, :at)

-- name: add_imported_message
INSERT INTO agent_messages (id, session_id, turn_id, position, role, content, model, event_id, created_at)
VALUES (:id, :session_id, :turn_id, :position, :role, :content, :model, :event_id, :at)

-- name: add_imported_call
INSERT INTO agent_tool_calls (
  id, session_id, turn_id, message_id, call_id, tool_name, arguments_json, status, started_at, position)
VALUES (:id, :session_id, :turn_id, :message_id, :call_id, :tool_name, :arguments, 'cancelled', :at, :position)
ON CONFLICT DO NOTHING

-- name: end_imported_call
UPDATE agent_tool_calls SET status = :status, result = :result, error = :error, ended_at = :at
WHERE id = coalesce(:id, (
  SELECT call.id FROM agent_turns AS turn CROSS JOIN agent_tool_calls AS call ON call.turn_id = turn.id
  WHERE turn.session_id = :session_id AND call.call_id = :call_id
  ORDER BY call.position DESC LIMIT 1))

-- name: end_imported_turn
UPDATE agent_turns SET ended_at = max(ended_at, :at) WHERE id = :id

-- name: extend_imported_session
UPDATE agent_sessions
SET updated_at = max(updated_at, :at), model = coalesce(:model, model), project = coalesce(project, :project)
WHERE id = :id
