-- What a preview reads.

-- name: prompts
-- Requests that an agent worked on in their own session, with the run that has their turn, its model, and whether the owner asked.
SELECT request.id, request.created_at, coalesce(run.taken_by, run.id),
       (SELECT provider || '/' || model FROM usage
        WHERE request_id = request.id AND automation IS NULL ORDER BY created_at LIMIT 1),
       request.access_json ->> 'level' = 'owner'
FROM requests AS request
JOIN executions AS run ON run.id = (
  SELECT id FROM executions WHERE request_id = request.id AND session_label = request.session_label
  ORDER BY enqueued_at, id LIMIT 1)
WHERE request.created_at >= :since AND request.created_at < :until
ORDER BY request.created_at, request.id

-- name: recorded
-- What the memory has learned since a moment, until another.
SELECT created_at AS at, id FROM facts WHERE created_at >= :since AND created_at < :until
UNION ALL SELECT created_at, id FROM analysis_runs WHERE created_at >= :since AND created_at < :until
UNION ALL SELECT created_at, id FROM episodes WHERE created_at >= :since AND created_at < :until
UNION ALL SELECT created_at, id FROM mental_models WHERE created_at >= :since AND created_at < :until
ORDER BY at

-- name: fact_created_at
SELECT created_at FROM facts WHERE id = ?

-- name: last_call
-- What the last call of a run's model read and wrote.
SELECT input_tokens + cache_read_tokens + cache_write_tokens, output_tokens
FROM usage WHERE execution_id = ? ORDER BY created_at DESC, id DESC LIMIT 1
