-- What must hold across the ledgers. Each statement lists what violates an invariant: the id and what is wrong.
-- `:before` is when a request must have come in to have left intake; `:limit` bounds the list; `:strict` says that
-- the memory writer was on all along.

-- name: requests
SELECT r.id, 'has been at ' || coalesce(r.stage, 'its beginning') || ' since ' || r.created_at
             || ', and nothing works on it'
FROM runtime.requests AS r
WHERE r.status = 'running' AND r.created_at < :before
  AND NOT EXISTS (
    SELECT 1 FROM runtime.executions AS e LEFT JOIN runtime.executions AS taker ON taker.id = e.taken_by
    WHERE e.request_id = r.id AND e.session_label = r.session_label
      AND (e.status IN ('queued', 'running') OR taker.status IN ('queued', 'running')))
  AND NOT EXISTS (
    SELECT 1 FROM runtime.dispatches AS d LEFT JOIN runtime.executions AS told ON told.id = d.delivered_to
    WHERE d.parent_request_id = r.id
      AND (d.status = 'running' OR d.delivered_to IS NULL OR told.status IN ('queued', 'running')))
  AND NOT EXISTS (
    SELECT 1 FROM runtime.invocations AS i
    WHERE i.request_id = r.id AND i.status IN ('queued', 'running'))
LIMIT :limit

-- name: turns
-- Accounted for: marked by the writer, waiting for it, failed and due again, or left to a later turn on purpose.
-- One that the writer was never asked about counts if the writer was on: as `:strict` says, or as the turns just
-- before and after it show.
WITH turns AS (
  SELECT t.execution_id, s.label, t.session_id, t.position, t.started_at,
         t.status = 'done' AND NOT EXISTS (
           SELECT 1 FROM memory.processing_log AS p WHERE p.processor = 'memory-writer'
             -- In homes imported from before 0.1.0 the request is marked.
             AND (p.target_type, p.target_id) IN (('execution', t.execution_id), ('request', t.request_id))
         ) AS is_unmarked,
         (SELECT CASE WHEN max(i.status NOT IN ('done', 'flagged')
                               OR coalesce(json_extract(i.result_json, '$.log.waits'), json_extract(i.result_json, '$.enrich.waits')) IS NOT 'no turn is due')
                 THEN 'accounted for' WHEN count(*) THEN 'passed over' END
          FROM runtime.invocations AS i JOIN runtime.automations AS a ON a.id = i.automation_id
          WHERE a.name = 'memory-writer' AND i.request_id = t.request_id
            AND coalesce(json_extract(i.input_json, '$.result.execution_id'), t.execution_id) = t.execution_id
         ) AS writer
  FROM agents.agent_turns AS t
  JOIN agents.agent_sessions AS s ON s.id = t.session_id
  JOIN runtime.executions AS e ON e.id = t.execution_id
  JOIN runtime.requests AS r ON r.id = e.request_id AND r.session_label = s.label
  WHERE t.kind = 'exchange'
), beside AS (
  SELECT *, lag(writer) OVER session IS NOT NULL AND lead(writer) OVER session IS NOT NULL
            AND julianday(lead(started_at) OVER session) - julianday(lag(started_at) OVER session) < 1.0 / 24
            AS was_on
  FROM turns WINDOW session AS (PARTITION BY session_id ORDER BY position)
)
SELECT execution_id, 'ended in the session ' || label || ', and the memory writer '
       || iif(writer IS NULL, 'was not asked about it', 'took it for written')
FROM beside
WHERE is_unmarked AND (writer = 'passed over' OR writer IS NULL AND (was_on OR :strict))
LIMIT :limit

-- name: dispatches
SELECT id, problem FROM (
  SELECT d.id, 'ended as ' || d.status || ', and no run got its result' AS problem
  FROM runtime.dispatches AS d WHERE d.status <> 'running' AND d.delivered_to IS NULL
  UNION ALL
  SELECT d.id, 'is running, but its run ' || d.execution_id || ' ' || coalesce('ended as ' || e.status, 'is not recorded')
  FROM runtime.dispatches AS d LEFT JOIN runtime.executions AS e ON e.id = d.execution_id
  LEFT JOIN runtime.executions AS parent ON parent.id = d.parent_execution_id
  WHERE d.status = 'running' AND coalesce(e.status, 'none') NOT IN ('queued', 'running')
    -- The run that dispatched it makes up for what a crash cut off.
    AND NOT (e.id IS NULL AND coalesce(parent.status, 'none') IN ('queued', 'running'))
  UNION ALL
  SELECT d.id, 'was delivered to the run ' || d.delivered_to || ', which is not recorded'
  FROM runtime.dispatches AS d
  WHERE d.delivered_to IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM runtime.executions AS e WHERE e.id = d.delivered_to)
) LIMIT :limit

-- name: answers
SELECT e.id, 'is done, and its answer was not recorded in ' || r.channel
FROM runtime.executions AS e JOIN runtime.requests AS r ON r.id = e.request_id AND r.session_label = e.session_label
WHERE e.status = 'done' AND e.taken_by IS NULL AND e.work = 'agent' AND r.depth = 0 AND r.channel IS NOT NULL
  AND e.result_json IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM events.events AS v WHERE v.channel = r.channel AND v.external_id = e.id)
LIMIT :limit

-- name: usage
SELECT id, problem FROM (
  SELECT t.execution_id AS id, count(*) || ' answers of a model, '
         || (SELECT count(*) FROM runtime.usage AS u WHERE u.execution_id = t.execution_id) || ' usage rows' AS problem
  FROM agents.agent_turns AS t JOIN agents.agent_messages AS m ON m.turn_id = t.id
  WHERE t.execution_id IS NOT NULL AND m.role = 'assistant' AND m.model IS NOT NULL
  GROUP BY t.execution_id
  HAVING count(*) > (SELECT count(*) FROM runtime.usage AS u WHERE u.execution_id = t.execution_id)
  UNION ALL
  SELECT v.execution_id, 'has ended with a request to a model that was reserved and never settled'
  FROM runtime.reservations AS v
  WHERE NOT EXISTS (SELECT 1 FROM runtime.executions AS e
                    WHERE e.id = v.execution_id AND e.status IN ('queued', 'running'))
) LIMIT :limit

-- name: order
SELECT id, 'was accepted before the run that precedes it in the session ' || label FROM (
  SELECT t.execution_id AS id, s.label, e.rowid AS place,
         lag(e.rowid) OVER (PARTITION BY t.session_id ORDER BY t.position) AS previous
  FROM agents.agent_turns AS t
  JOIN agents.agent_sessions AS s ON s.id = t.session_id
  JOIN runtime.executions AS e ON e.id = t.execution_id
  WHERE t.kind = 'exchange'
) WHERE previous > place LIMIT :limit

-- name: effects
SELECT id, problem FROM (
  SELECT r.event_id AS id, 'was worked on ' || count(*) || ' times: ' || group_concat(r.id, ', ') AS problem
  FROM runtime.requests AS r
  WHERE r.event_id IS NOT NULL AND r.depth = 0
    AND EXISTS (SELECT 1 FROM runtime.executions AS e
                WHERE e.request_id = r.id AND e.session_label = r.session_label)
  GROUP BY r.event_id HAVING count(*) > 1
  UNION ALL
  SELECT d.id, 'was reported ' || count(*) || ' times: ' || group_concat(e.id, ', ')
  FROM runtime.dispatches AS d
  JOIN runtime.executions AS e ON e.request_id = d.parent_request_id
  WHERE e.session_label = d.parent_session_label AND e.mode = 'steer' AND e.status <> 'cancelled'
    AND instr(json_extract(e.input_json, '$.context.current_message'), d.id)
  GROUP BY d.id HAVING count(*) > 1
) LIMIT :limit

-- name: unfinished
-- Runs and async invocations that have not ended, by id.
SELECT id, kind, status FROM (
  SELECT id, 'executions' AS kind, status FROM runtime.executions
  WHERE status IN ('queued', 'running') AND id > :after
  UNION ALL
  SELECT id, 'invocations', status FROM runtime.invocations
  WHERE status IN ('queued', 'running') AND blocking = 0 AND id > :after
) ORDER BY id LIMIT :limit

-- name: recorded
SELECT id, status FROM runtime.executions WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, status FROM runtime.invocations WHERE id IN (SELECT value FROM json_each(:ids))
