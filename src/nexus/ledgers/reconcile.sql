-- What ledgers that were caught at different moments lack of each other. All six are attached.

-- name: said_without_event
-- Messages whose run knows them word by word, and the events ledger doesn't.
SELECT r.event_id, r.thread_id, r.channel, r.created_at, json_extract(e.input_json, '$.context.message')
FROM requests AS r JOIN executions AS e ON e.request_id = r.id AND e.session_label = r.session_label
WHERE r.event_id IS NOT NULL AND r.depth = 0 AND json_extract(e.input_json, '$.context.message') IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM events AS v WHERE v.id = r.event_id)
GROUP BY r.event_id ORDER BY r.created_at, r.id

-- name: answered_without_event
SELECT e.id, r.id, r.event_id, r.thread_id, r.channel, e.ended_at, json_extract(e.result_json, '$.response.content')
FROM executions AS e JOIN requests AS r ON r.id = e.request_id AND r.session_label = e.session_label
WHERE e.status = 'done' AND e.taken_by IS NULL AND e.work = 'agent' AND r.depth = 0 AND r.channel IS NOT NULL
  AND json_extract(e.result_json, '$.response.content') IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM events AS v WHERE v.channel = r.channel AND v.external_id = e.id)
ORDER BY e.rowid

-- name: turns_without_run
-- Turns of runs that the runtime ledger doesn't know, with the message of each and its answer.
SELECT t.id, t.execution_id, t.request_id, t.status, t.started_at, s.label, s.role, s.thread_id,
       v.id, v.channel,
       coalesce(
         (SELECT o.content FROM events AS o WHERE o.channel = v.channel AND o.external_id = t.execution_id),
         iif(t.status = 'done', (SELECT m.content FROM agent_messages AS m
                                 WHERE m.turn_id = t.id AND m.role = 'assistant' ORDER BY m.position DESC LIMIT 1), NULL))
FROM agent_turns AS t JOIN agent_sessions AS s ON s.id = t.session_id
LEFT JOIN events AS v ON v.id = (SELECT m.event_id FROM agent_messages AS m
                                 WHERE m.turn_id = t.id AND m.event_id IS NOT NULL LIMIT 1)
WHERE t.execution_id IS NOT NULL AND t.request_id IS NOT NULL AND t.kind = 'exchange'
  AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = t.execution_id)
ORDER BY t.started_at, t.id

-- name: answers_without_run
-- Answers of the last minute whose run neither the runtime ledger nor the session knows, with their messages.
WITH last (seq, at) AS (
  SELECT seq, created_at FROM events WHERE seq = coalesce(
    (SELECT seq FROM events AS e WHERE EXISTS (SELECT 1 FROM requests AS r WHERE r.event_id = e.id AND r.depth = 0)
     ORDER BY seq DESC LIMIT 1), 0))
SELECT o.external_id, o.request_id, o.content, v.id, v.channel, v.thread_id, v.created_at,
       coalesce(json_extract(v.metadata_json, '$.session'),
         (SELECT r.session_label FROM requests AS r WHERE r.thread_id = v.thread_id AND r.depth = 0
          ORDER BY r.rowid DESC LIMIT 1)) AS label
FROM events AS o JOIN events AS v ON v.id = o.reply_to_event_id LEFT JOIN last
WHERE o.direction = 'outbound' AND o.external_id GLOB 'exe_*' AND o.request_id IS NOT NULL AND label IS NOT NULL
  AND (last.seq IS NULL OR v.seq > last.seq
       OR v.created_at BETWEEN strftime('%Y-%m-%dT%H:%M:%fZ', last.at, '-60 seconds') AND last.at)
  AND NOT EXISTS (SELECT 1 FROM requests AS r WHERE r.id = o.request_id OR r.event_id = v.id)
  AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = o.external_id)
  AND NOT EXISTS (SELECT 1 FROM import_ranges AS i WHERE v.seq BETWEEN i.first_seq AND i.last_seq)
ORDER BY o.seq

-- name: runs_with_answer
-- Runs that have not ended for the runtime ledger, and whose answer is recorded.
SELECT e.id, r.id, e.session_label, v.content
FROM executions AS e JOIN requests AS r ON r.id = e.request_id
JOIN events AS v ON v.channel = r.channel AND v.external_id = e.id
WHERE e.status IN ('queued', 'running')

-- name: unfinished_runs
SELECT id FROM executions WHERE status IN ('queued', 'running')

-- name: done_without_turn
-- Answers that the session doesn't know: it has no turn of the run, or one that was cut off.
SELECT e.id, e.session_label, r.id, coalesce(r.role, 'manager'), r.thread_id, r.event_id, v.content,
       json_extract(e.result_json, '$.response.content')
FROM executions AS e JOIN requests AS r ON r.id = e.request_id AND r.session_label = e.session_label
LEFT JOIN events AS v ON v.id = r.event_id
LEFT JOIN agent_turns AS t ON t.execution_id = e.id AND t.kind = 'exchange'
WHERE e.status = 'done' AND e.taken_by IS NULL AND e.work = 'agent'
  AND (t.id IS NULL OR t.status = 'running') AND json_extract(e.result_json, '$.response.content') IS NOT NULL
ORDER BY e.rowid

-- name: open_turns_of_ended
SELECT t.id, e.status, e.error FROM agent_turns AS t JOIN executions AS e ON e.id = t.execution_id
WHERE t.status = 'running' AND e.status NOT IN ('queued', 'running')

-- name: unbilled
-- Runs with more answers of a model than usage rows: how many are missing, and what they said.
SELECT t.execution_id, e.request_id, e.root_request_id, s.role, max(m.model), sum(length(m.content)) / 4,
       count(*) - (SELECT count(*) FROM usage AS u WHERE u.execution_id = t.execution_id)
FROM agent_turns AS t JOIN agent_messages AS m ON m.turn_id = t.id JOIN agent_sessions AS s ON s.id = t.session_id
JOIN executions AS e ON e.id = t.execution_id
WHERE m.role = 'assistant' AND m.model IS NOT NULL
GROUP BY t.execution_id
HAVING count(*) > (SELECT count(*) FROM usage AS u WHERE u.execution_id = t.execution_id)

-- name: requests_without_run
-- Requests that were on their way to their run.
SELECT r.id FROM requests AS r
WHERE r.status = 'running' AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.request_id = r.id)

-- name: unheard
-- Messages that nobody was asked about: those behind the last one that somebody was, and of the minute before it;
-- with the run that was lost with its answer. What came last is told by its seq: the clock may have been ahead.
WITH last (seq, at) AS (
  SELECT seq, created_at FROM events WHERE seq = coalesce(
    (SELECT seq FROM events AS e WHERE EXISTS (SELECT 1 FROM requests AS r WHERE r.event_id = e.id AND r.depth = 0)
     ORDER BY seq DESC LIMIT 1),
    (SELECT max(seq) FROM events)))
SELECT v.id, (SELECT t.execution_id FROM agent_messages AS m JOIN agent_turns AS t ON t.id = m.turn_id
              WHERE m.event_id = v.id AND t.error = :lost LIMIT 1)
FROM events AS v JOIN last
WHERE v.direction = 'inbound' AND v.kind = 'message'
  AND (v.seq > last.seq OR v.created_at BETWEEN strftime('%Y-%m-%dT%H:%M:%fZ', last.at, '-60 seconds') AND last.at)
  AND NOT EXISTS (SELECT 1 FROM requests AS r WHERE r.event_id = v.id)
  -- A voice note that was transcribed: its request goes by the transcript.
  AND NOT EXISTS (SELECT 1 FROM events AS t JOIN requests AS r ON r.event_id = t.id
                  WHERE t.channel = v.channel AND t.external_id = v.id || ':transcript')
  AND NOT EXISTS (SELECT 1 FROM events AS o WHERE o.reply_to_event_id = v.id AND o.direction = 'outbound')
  AND NOT EXISTS (SELECT 1 FROM import_ranges AS i WHERE v.seq BETWEEN i.first_seq AND i.last_seq)
ORDER BY v.seq

-- name: unwritten
-- Turns that the memory writer was never asked about, as new as the last one but for a minute.
SELECT s.label, t.execution_id, t.request_id
FROM agent_turns AS t JOIN agent_sessions AS s ON s.id = t.session_id
JOIN requests AS r ON r.id = t.request_id AND r.session_label = s.label
WHERE t.kind = 'exchange' AND t.status = 'done' AND t.execution_id IS NOT NULL
  AND t.started_at >= (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', started_at, '-60 seconds') FROM agent_turns
                       WHERE rowid = (SELECT max(rowid) FROM agent_turns WHERE execution_id IS NOT NULL))
  AND NOT EXISTS (SELECT 1 FROM processing_log AS p WHERE p.processor = 'memory-writer'
                  AND p.target_type = 'execution' AND p.target_id = t.execution_id)
  AND NOT EXISTS (SELECT 1 FROM invocations AS i JOIN automations AS a ON a.id = i.automation_id
                  WHERE a.name = 'memory-writer' AND i.request_id = t.request_id)
ORDER BY t.started_at, t.id

-- name: thread
INSERT INTO threads (id, channel, external_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: release_message
UPDATE requests SET event_id = NULL WHERE id = ?

-- name: withdraw_turn
UPDATE agent_turns SET status = 'cancelled', error = :error,
  ended_at = coalesce(ended_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
WHERE id = :id
