-- name: counts
SELECT 'automations', count(*) FROM automations WHERE status <> 'superseded'
UNION ALL SELECT 'requests', count(*) FROM requests UNION ALL SELECT 'executions', count(*) FROM executions

-- name: enqueue_execution
INSERT INTO executions (id, request_id, root_request_id, session_label, lane, work, mode, input_json, timeout_ms)
SELECT :id, id, root_request_id, :session_label, :lane, :work, :mode, :input, :timeout_ms
FROM requests WHERE id = :request_id
ON CONFLICT (id) DO NOTHING

-- name: execution
SELECT id, request_id, session_label, lane, work, mode, input_json, taken_by, status, result_json, error,
       enqueued_at, started_at, ended_at, timeout_ms
FROM executions WHERE id = ?

-- name: begin_execution
UPDATE executions
SET status = 'running', started_at = coalesce(started_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
WHERE id = ? AND status IN ('queued', 'running')

-- name: end_execution
UPDATE executions
SET status = :status, result_json = :result, error = :error,
    ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = :id AND status IN ('queued', 'running')

-- name: take_waiting
-- Those of one mode that wait in the taker's session; of the collected ones, none behind another mode's.
-- An id may be older than its row: the order in which runs were recorded is that of the rowids.
UPDATE executions SET taken_by = :taker
WHERE session_label = :session_label AND status = 'queued' AND mode = :mode AND id <> :taker
  AND (taken_by IS NULL OR taken_by = :taker)
  AND (mode <> 'collect' OR rowid < coalesce(
    (SELECT min(other.rowid) FROM executions AS other
     WHERE other.session_label = :session_label AND other.status = 'queued' AND other.mode <> 'collect'
       AND other.rowid > (SELECT rowid FROM executions WHERE id = :taker)),
    9223372036854775807))

-- name: taken
SELECT input_json FROM executions WHERE taken_by = ? AND mode = ? ORDER BY rowid

-- name: release_taken
UPDATE executions SET taken_by = NULL WHERE taken_by = ? AND status = 'queued'

-- name: unfinished_in_session
SELECT id FROM executions
WHERE session_label = ? AND status IN ('queued', 'running')
  AND rowid < (SELECT rowid FROM executions WHERE id = ?)
ORDER BY rowid

-- name: unfinished
SELECT id FROM executions WHERE status IN ('queued', 'running') ORDER BY rowid

-- name: known_executions
SELECT id FROM executions WHERE id IN (SELECT value FROM json_each(?))
