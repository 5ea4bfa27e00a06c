-- name: counts
SELECT 'automations', count(*) FROM automations WHERE status <> 'superseded'
UNION ALL SELECT 'requests', count(*) FROM requests UNION ALL SELECT 'executions', count(*) FROM executions

-- name: enqueue_execution
INSERT INTO executions (id, request_id, root_request_id, session_label, lane, work, mode, input_json, timeout_ms)
SELECT :id, id, root_request_id, :session_label,
       -- Where its session already is, for it may be in one lane only.
       coalesce((SELECT lane FROM executions
                 WHERE session_label = :session_label AND status IN ('queued', 'running') LIMIT 1), :lane),
       :work, :mode, :input, :timeout_ms
FROM requests WHERE id = :request_id
ON CONFLICT (id) DO NOTHING

-- name: execution
SELECT id, request_id, session_label, lane, work, mode, input_json, taken_by, status, result_json, error,
       enqueued_at, started_at, ended_at, timeout_ms, waiting_since, waiting_for
FROM executions WHERE id = ?

-- name: executions_below
SELECT count(*) FROM executions
WHERE session_label >= :label AND session_label < :label || char(1114111) AND enqueued_at >= :since

-- name: begin_execution
UPDATE executions
SET status = 'running', started_at = coalesce(started_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
WHERE id = ? AND status IN ('queued', 'running')

-- name: end_execution
UPDATE executions
SET status = :status, result_json = :result, error = :error,
    ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), waiting_since = NULL, waiting_for = NULL
WHERE id = :id AND status IN ('queued', 'running')

-- name: wait_for_provider
UPDATE executions
SET waiting_since = coalesce(waiting_since, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), waiting_for = :reason
WHERE id = :id AND status = 'running'

-- name: provider_answers
UPDATE executions SET waiting_since = NULL, waiting_for = NULL WHERE id = ? AND waiting_since IS NOT NULL

-- name: take_waiting
-- Those of one mode that wait in the taker's session and act for the same principal with the same access.
-- What replaces a turn, or names another model or no tools, has a run of its own.
-- Of the collected ones, none behind one that cannot join.
-- An id may be older than its row: the order in which runs were recorded is that of the rowids.
WITH taker AS (
  SELECT e.rowid AS place, r.principal_id, r.access_json, json_extract(e.input_json, '$.access') AS granted,
         json_extract(e.input_json, '$.context.model') AS model,
         coalesce(json_extract(e.input_json, '$.context.has_tools'), 1) AS has_tools
  FROM executions AS e JOIN requests AS r ON r.id = e.request_id
  WHERE e.id = :taker AND e.status IN ('queued', 'running')
), waiting AS (
  SELECT e.id, e.rowid AS place,
         e.mode = :mode AND (r.principal_id, r.access_json, json_extract(e.input_json, '$.access'))
           IS (taker.principal_id, taker.access_json, taker.granted)
         AND json_extract(e.input_json, '$.context.replaces') IS NULL
         AND coalesce(json_extract(e.input_json, '$.context.model'), '') IN ('', coalesce(taker.model, ''))
         AND coalesce(json_extract(e.input_json, '$.context.has_tools'), 1) = taker.has_tools AS joins
  FROM taker JOIN executions AS e JOIN requests AS r ON r.id = e.request_id
  -- Both, for the index of what has not ended: a session may hold thousands that have.
  WHERE e.session_label = :session_label AND e.status IN ('queued', 'running') AND +e.status = 'queued'
    AND e.id <> :taker
)
UPDATE executions SET taken_by = :taker
WHERE (taken_by IS NULL OR taken_by = :taker) AND id IN (
  SELECT id FROM waiting
  WHERE joins AND (:mode <> 'collect' OR place < coalesce(
    (SELECT min(other.place) FROM waiting AS other
     WHERE NOT other.joins AND other.place > (SELECT place FROM taker)),
    9223372036854775807)))

-- name: taken
SELECT id FROM executions WHERE taken_by = ? AND mode = ? ORDER BY rowid

-- name: prepare_execution
UPDATE executions SET input_json = json_set(input_json, '$.context', json(:context)) WHERE id = :id

-- name: release_taken
UPDATE executions SET taken_by = NULL WHERE taken_by = ? AND status IN ('queued', 'running')

-- name: interrupted_by
-- The owner may stop anybody's runs; everybody else only what acts for them with the same access.
SELECT e.id FROM executions AS e JOIN requests AS r ON r.id = e.request_id
JOIN executions AS new ON new.id = ? JOIN requests AS own ON own.id = new.request_id
WHERE e.session_label = new.session_label AND e.status IN ('queued', 'running') AND e.rowid < new.rowid
  AND (json_extract(own.access_json, '$.level') IS 'owner'
       OR (r.principal_id, r.access_json) IS (own.principal_id, own.access_json))
ORDER BY e.rowid

-- name: end_requests_of_run
-- What a run answered: its own request and those that were taken into it. One with workers still at work ends
-- with their results; one that has another run to come, with that.
UPDATE requests SET status = :status, error = :error, ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE status = 'running'
  AND id IN (SELECT request_id FROM executions WHERE id = :run OR taken_by = :run)
  AND session_label = (SELECT session_label FROM executions WHERE id = :run)
  AND NOT EXISTS (SELECT 1 FROM dispatches AS d WHERE d.parent_request_id = requests.id AND d.status = 'running')
  AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.request_id = requests.id
                    AND e.session_label = requests.session_label AND e.status IN ('queued', 'running')
                    AND (e.taken_by IS NULL OR e.taken_by <> :run))

-- name: end_requests_heard_by_run
-- What workers of earlier requests of its session found was taken by a call of this run: no other run tells of it.
UPDATE requests
SET status = CASE WHEN EXISTS (SELECT 1 FROM executions AS e WHERE e.request_id = requests.id AND e.status = 'done'
                                 AND e.session_label = requests.session_label)
             THEN 'done' ELSE :status END,
    error = CASE WHEN EXISTS (SELECT 1 FROM executions AS e WHERE e.request_id = requests.id AND e.status = 'done'
                                AND e.session_label = requests.session_label)
            THEN NULL ELSE :error END,
    ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE status = 'running'
  AND id IN (SELECT d.parent_request_id FROM dispatches AS d
             WHERE d.parent_session_label = (SELECT session_label FROM executions WHERE id = :run)
               AND d.delivered_to = :run)
  AND NOT EXISTS (SELECT 1 FROM dispatches AS d WHERE d.parent_request_id = requests.id AND d.status = 'running')
  AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.request_id = requests.id
                    AND e.session_label = requests.session_label AND e.status IN ('queued', 'running'))

-- name: end_dispatch_of_run
UPDATE dispatches SET status = :status, ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE worker_request_id = (SELECT request_id FROM executions WHERE id = :run) AND execution_id = :run
  AND status = 'running'

-- name: last_request_rowid
SELECT coalesce(max(rowid), 0) FROM requests

-- name: end_orphaned_requests
-- Nothing works on them any more: their process died, or an older version left them behind.
UPDATE requests
SET status = CASE WHEN EXISTS (SELECT 1 FROM executions AS e WHERE e.request_id = requests.id AND e.status = 'done'
                                 AND e.session_label = requests.session_label)
             THEN 'done' ELSE 'failed' END,
    error = CASE WHEN EXISTS (SELECT 1 FROM executions AS e WHERE e.request_id = requests.id AND e.status = 'done'
                                AND e.session_label = requests.session_label)
            THEN NULL ELSE :error END,
    ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE status = 'running' AND rowid <= :last AND (:alone OR created_at < :before)
  AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.root_request_id = requests.root_request_id
                    AND e.status IN ('queued', 'running'))
  AND NOT EXISTS (SELECT 1 FROM dispatches AS d WHERE d.root_request_id = requests.root_request_id
                    AND (d.status = 'running' OR d.delivered_to IS NULL))
  AND NOT EXISTS (SELECT 1 FROM invocations AS i WHERE i.root_request_id = requests.root_request_id
                    AND i.status IN ('queued', 'running'))

-- name: end_request_without_run
UPDATE requests SET status = :status, error = :error, ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = :id AND status = 'running' AND NOT EXISTS (SELECT 1 FROM executions WHERE request_id = :id)

-- name: reopen_request
UPDATE requests SET status = 'running', error = NULL, ended_at = NULL
WHERE id = ? AND status IN ('done', 'failed', 'cancelled')

-- name: withdraw_execution
DELETE FROM executions WHERE id = ? AND status = 'queued' AND taken_by IS NULL

-- name: predecessor
-- What its session has before it and has not ended, the latest of it.
SELECT id FROM executions
WHERE session_label = (SELECT session_label FROM executions WHERE id = :id) AND status IN ('queued', 'running')
  AND rowid < (SELECT rowid FROM executions WHERE id = :id)
ORDER BY rowid DESC LIMIT 1

-- name: unfinished
SELECT id FROM executions WHERE status IN ('queued', 'running') ORDER BY rowid

-- name: unfinished_in_session
SELECT id FROM executions WHERE session_label = ? AND status IN ('queued', 'running') ORDER BY rowid

-- name: unfinished_below
-- In sessions whose labels begin like that.
SELECT id FROM executions WHERE status IN ('queued', 'running') AND substr(session_label, 1, length(:label)) = :label
ORDER BY rowid

-- name: known_executions
SELECT id FROM executions WHERE id IN (SELECT value FROM json_each(?))

-- name: begun_in_session
-- Few are newer than one that was just seen: the session's own index would give all. All, if that one is unknown.
SELECT id FROM executions
WHERE +session_label = :session_label AND rowid > coalesce((SELECT rowid FROM executions WHERE id = :after), 0)
  AND taken_by IS NULL AND (status <> 'cancelled' OR :with_cancelled) ORDER BY rowid

-- name: newest_in_session
SELECT id FROM executions WHERE rowid = (SELECT max(rowid) FROM executions WHERE session_label = ?)

-- name: record_step
-- None of a run that another process has ended: nobody would drop it.
INSERT INTO steps (execution_id, name, number, failed, outcome)
SELECT ?1, ?2, ?3, ?4, ?5
WHERE NOT EXISTS (SELECT 1 FROM executions WHERE id = ?1 AND status NOT IN ('queued', 'running'))
ON CONFLICT DO NOTHING

-- name: steps
SELECT name, number, failed, outcome FROM steps WHERE execution_id = ? ORDER BY name, number

-- name: drop_steps
DELETE FROM steps WHERE execution_id = ?

-- name: create_request
INSERT INTO requests (id, parent_request_id, root_request_id, event_id, thread_id, channel, session_label,
                      principal_id, role, depth, access_json, created_at)
VALUES (:id, :parent_request_id, :root_request_id, :event_id, :thread_id, :channel, :session_label,
        :principal_id, :role, :depth, :access, :created_at)
-- One that was taken for an orphan is worked on again: a job was interrupted before it began a run.
ON CONFLICT (id) DO UPDATE SET status = 'running', error = NULL, ended_at = NULL
WHERE status = 'failed' AND error = :orphaned
  AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.request_id = requests.id)

-- name: update_request
UPDATE requests
SET session_label = :session_label, principal_id = :principal_id, role = :role, access_json = :access,
    enrichment_json = :enrichment, event_id = :event_id
WHERE id = :id

-- name: enrichment
SELECT enrichment_json FROM requests WHERE id = ?

-- name: request
SELECT id, parent_request_id, root_request_id, event_id, thread_id, channel, session_label, principal_id, role,
       depth, access_json, stage, status, error, created_at, ended_at
FROM requests WHERE id = ?

-- name: requests_by_id
SELECT id, parent_request_id, root_request_id, event_id, thread_id, channel, session_label, principal_id, role,
       depth, access_json, stage, status, error, created_at, ended_at
FROM requests WHERE id IN (SELECT value FROM json_each(?))

-- name: requests_in_sessions
-- What some sessions have worked on, also what was said to a run that was already at work.
SELECT DISTINCT request_id FROM executions
WHERE session_label IN (SELECT value FROM json_each(?)) AND (status <> 'queued' OR taken_by IS NOT NULL)

-- name: requests_in_thread
SELECT id FROM requests WHERE channel = ? AND thread_id IS ?

-- name: said_to_runs
-- The messages that each of some runs answered, with what their senders were to the home; not what workers
-- reported.
SELECT coalesce(e.taken_by, e.id), json_extract(e.input_json, '$.context.event_id') AS event_id,
       coalesce(json_extract(r.access_json, '$.level'), 'unknown')
FROM executions AS e JOIN requests AS r ON r.id = e.request_id
WHERE (e.id IN (SELECT value FROM json_each(:ids)) OR e.taken_by IN (SELECT value FROM json_each(:ids)))
  AND json_extract(e.input_json, '$.context.event_id') IS NOT NULL
ORDER BY e.rowid

-- name: requests_of_runs
-- The requests that each of some runs answered: its own, and those that were collected into it. What a worker
-- was given to do goes back to the message at its root.
SELECT coalesce(e.taken_by, e.id), r.id, r.root_request_id, coalesce(r.event_id, root.event_id), r.depth > 0,
       e.taken_by IS NOT NULL AND EXISTS (
         SELECT 1 FROM dispatches AS d WHERE d.root_request_id = r.root_request_id AND d.delivered_to = e.id)
FROM executions AS e JOIN requests AS r ON r.id = e.request_id
LEFT JOIN requests AS root ON root.id = r.root_request_id
WHERE e.id IN (SELECT value FROM json_each(:ids)) OR e.taken_by IN (SELECT value FROM json_each(:ids))
ORDER BY e.rowid

-- name: missed_requests
-- What an automation failed on or was not let near, the oldest first.
SELECT r.id, r.session_label
FROM invocations AS i JOIN automations AS a ON a.id = i.automation_id JOIN requests AS r ON r.id = i.request_id
WHERE a.name = :automation AND i.created_at >= :since AND i.status IN ('failed', 'timeout', 'skipped')
  AND r.session_label IS NOT NULL
GROUP BY r.id ORDER BY min(i.created_at), r.id LIMIT :limit

-- name: enriched_below
SELECT id, enrichment_json FROM requests WHERE root_request_id IN (SELECT value FROM json_each(?))

-- name: requests_of_event
SELECT id FROM requests WHERE event_id = ? ORDER BY rowid

-- name: request_for_event
-- The one that decides what became of an event: what a run works on or worked on, then what ended without one, then
-- what is on its way. Ids and times say nothing here: the clock may have been set back in between.
SELECT id, parent_request_id, root_request_id, event_id, thread_id, channel, session_label, principal_id, role,
       depth, access_json, stage, status, error, created_at, ended_at
FROM requests AS r WHERE event_id = ?
ORDER BY EXISTS (SELECT 1 FROM executions AS e WHERE e.request_id = r.id AND e.session_label = r.session_label) DESC,
         status IN ('done', 'denied') DESC, status = 'running' DESC, rowid LIMIT 1

-- name: lineage
SELECT id, parent_request_id, root_request_id, event_id, thread_id, channel, session_label, principal_id, role,
       depth, access_json, stage, status, error, created_at, ended_at
FROM requests WHERE root_request_id = ? ORDER BY created_at, id

-- name: recent_roots
SELECT id, parent_request_id, root_request_id, event_id, thread_id, channel, session_label, principal_id, role,
       depth, access_json, stage, status, error, created_at, ended_at
FROM requests WHERE root_request_id = id ORDER BY created_at DESC, id DESC LIMIT ?

-- name: listed_requests
SELECT id, status, channel, session_label, role, stage, error, event_id, principal_id, created_at, ended_at
FROM requests
WHERE root_request_id = id AND (created_at, id) < (:at, :id) AND created_at >= :since
  AND (:status IS NULL OR status = :status) AND (:channel IS NULL OR channel = :channel)
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: count_requests
-- Of people and channels, by status, since a moment.
SELECT status, count(*) FROM requests WHERE root_request_id = id AND created_at >= ? GROUP BY status

-- name: requests_of_events
SELECT id, event_id, status, created_at FROM requests
WHERE event_id IN (SELECT value FROM json_each(?)) AND root_request_id = id
ORDER BY created_at DESC, id DESC LIMIT 20

-- name: request_channels
-- One step in the index for each channel, however many requests each has.
WITH RECURSIVE found (channel) AS (
  SELECT min(channel) FROM requests
  UNION ALL
  SELECT (SELECT min(channel) FROM requests WHERE channel > found.channel) FROM found WHERE found.channel IS NOT NULL
)
SELECT channel FROM found WHERE channel IS NOT NULL

-- name: workers_of_roots
SELECT root_request_id, count(*) - 1 FROM requests
WHERE root_request_id IN (SELECT value FROM json_each(?)) GROUP BY root_request_id

-- name: roots_of_requests
SELECT id, root_request_id FROM requests WHERE id IN (SELECT value FROM json_each(?))

-- name: end_open_stage
UPDATE spans SET outcome = :outcome, duration_ms = round((julianday(:ended_at) - julianday(started_at)) * 86400000, 3)
WHERE request_id = :request_id AND kind = 'stage' AND name = :name AND outcome IS NULL

-- name: enter_stage
UPDATE requests SET stage = :stage WHERE id = :id AND status = 'running'

-- name: end_request
UPDATE requests SET status = :status, error = :error, ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = :id AND status = 'running'

-- name: record_usage
-- Recorded again, a row takes what became known of an answer that had broken off or been given up for lost.
INSERT INTO usage (id, request_id, root_request_id, execution_id, invocation_id, role, provider, model,
                   input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_microusd, span_id,
                   automation, estimated)
VALUES (:id, :request_id, :root_request_id, :execution_id, :invocation_id, :role, :provider, :model,
        :input_tokens, :cache_read_tokens, :cache_write_tokens, :output_tokens, :cost_microusd, :span_id,
        :automation, :estimated)
ON CONFLICT (id) DO UPDATE
SET input_tokens = excluded.input_tokens, cache_read_tokens = excluded.cache_read_tokens,
    cache_write_tokens = excluded.cache_write_tokens, output_tokens = excluded.output_tokens,
    cost_microusd = excluded.cost_microusd, estimated = excluded.estimated

-- name: usage_of_root
SELECT coalesce(sum(calls), 0), coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0),
       coalesce(sum(cache_write_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_microusd), 0),
       coalesce(sum(unpriced_calls), 0)
FROM usage_roots WHERE root_request_id = ?

-- name: usage_of_executions
SELECT execution_id, count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
       sum(output_tokens), coalesce(sum(cost_microusd), 0), count(*) - count(cost_microusd)
FROM usage WHERE execution_id IN (SELECT value FROM json_each(?)) GROUP BY execution_id

-- name: usage_of_roots
SELECT root_request_id, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens,
       cost_microusd, unpriced_calls
FROM usage_roots WHERE root_request_id IN (SELECT value FROM json_each(?))

-- name: usage_by_day_and_model
SELECT day, provider || '/' || model, sum(calls), sum(input_tokens), sum(cache_read_tokens),
       sum(cache_write_tokens), sum(output_tokens), sum(cost_microusd), sum(unpriced_calls)
FROM usage_days WHERE day >= ? GROUP BY day, provider, model

-- name: last_day_of_usage
-- The last day on which a model was called.
SELECT max(day) FROM usage_days

-- name: usage_by_automation
SELECT automation, sum(calls), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
       sum(output_tokens), sum(cost_microusd), sum(unpriced_calls)
FROM usage_days WHERE day >= ? AND automation <> '' GROUP BY automation

-- name: usage_by_root
-- The dearest of each day, of which the dearest: so few rows of a year are looked at.
SELECT r.root_request_id, r.calls, r.input_tokens, r.cache_read_tokens, r.cache_write_tokens, r.output_tokens,
       r.cost_microusd, r.unpriced_calls
FROM (SELECT DISTINCT day FROM usage_days WHERE day >= :day) AS d
JOIN usage_roots AS r ON r.root_request_id IN (
  SELECT root_request_id FROM usage_roots WHERE day = d.day
  ORDER BY cost_microusd DESC, root_request_id DESC LIMIT :limit)
ORDER BY r.cost_microusd DESC, r.root_request_id DESC LIMIT :limit

-- name: usage_since
SELECT coalesce(sum(calls), 0), coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0),
       coalesce(sum(cache_write_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_microusd), 0),
       coalesce(sum(unpriced_calls), 0)
FROM usage_days WHERE day >= ?

-- name: usage_of_automation
SELECT coalesce(sum(calls), 0), coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0),
       coalesce(sum(cache_write_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_microusd), 0),
       coalesce(sum(unpriced_calls), 0)
FROM usage_days WHERE automation = ? AND day >= ?

-- name: guest_of_root
-- On whose behalf a message is worked on, where that is not the owner.
SELECT coalesce(principal_id, '') FROM requests
WHERE id = ? AND json_extract(access_json, '$.level') IN ('known', 'unknown')

-- name: usage_of_guests
-- By person, with everything that their messages led to.
SELECT coalesce(root.principal_id, '') AS guest, count(*), sum(input_tokens), sum(cache_read_tokens),
       sum(cache_write_tokens), sum(output_tokens), coalesce(sum(cost_microusd), 0),
       count(*) - count(cost_microusd)
FROM usage JOIN requests AS root ON root.id = usage.root_request_id
WHERE usage.created_at >= ? AND json_extract(root.access_json, '$.level') IN ('known', 'unknown')
GROUP BY 1

-- name: reserved_by_guests
-- By others than the one who asks: for each person.
SELECT coalesce(root.principal_id, '') AS guest, sum(input_tokens + output_tokens), coalesce(sum(cost_microusd), 0)
FROM reservations JOIN requests AS root ON root.id = reservations.root_request_id
WHERE reservations.execution_id <> ? AND json_extract(root.access_json, '$.level') IN ('known', 'unknown')
GROUP BY 1

-- name: automation_of_dispatcher
-- Whoever dispatched a worker had asked a model by then, on its own account or on an automation's.
SELECT automation FROM usage
WHERE execution_id = (SELECT parent_execution_id FROM dispatches WHERE worker_request_id = ?) LIMIT 1

-- name: record_budget_hit
INSERT INTO budget_hits (id, budget, unit, automation, most, used, request_id, root_request_id, execution_id)
VALUES (:id, :budget, :unit, :automation, :most, :used, :request_id, :root_request_id, :execution_id)
ON CONFLICT (id) DO NOTHING

-- name: budget_hits
SELECT id, budget, unit, automation, most, used, request_id, root_request_id, execution_id, created_at
FROM budget_hits WHERE created_at >= ? ORDER BY created_at DESC, id DESC LIMIT ?

-- name: reserve
INSERT OR REPLACE INTO reservations (execution_id, usage_id, request_id, root_request_id, invocation_id, role,
                                     provider, model, automation, input_tokens, output_tokens, cost_microusd)
SELECT :execution_id, :usage_id, :request_id, :root_request_id, :invocation_id, :role,
       :provider, :model, :automation, :input_tokens, :output_tokens, :cost_microusd
WHERE NOT EXISTS (SELECT 1 FROM executions WHERE id = :execution_id AND status NOT IN ('queued', 'running'))

-- name: reservation
SELECT execution_id, usage_id, request_id, root_request_id, invocation_id, role, provider, model, automation,
       input_tokens, output_tokens, cost_microusd, created_at
FROM reservations WHERE execution_id = ?

-- name: estimated_usage
SELECT count(*) FROM usage WHERE estimated AND created_at >= ?

-- name: release_reservation
DELETE FROM reservations WHERE usage_id = ?

-- name: reserved
-- By others than the one who asks: for the same message, for the same automation, for all.
SELECT coalesce(sum(input_tokens + output_tokens) FILTER (WHERE root_request_id = :root_request_id), 0),
       coalesce(sum(cost_microusd) FILTER (WHERE root_request_id = :root_request_id), 0),
       coalesce(sum(input_tokens + output_tokens) FILTER (WHERE automation = :automation), 0),
       coalesce(sum(cost_microusd) FILTER (WHERE automation = :automation), 0),
       coalesce(sum(input_tokens + output_tokens), 0), coalesce(sum(cost_microusd), 0)
FROM reservations WHERE execution_id <> :execution_id

-- name: usage_of_session
SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0),
       coalesce(sum(cache_write_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_microusd), 0),
       count(*) - count(cost_microusd)
FROM usage WHERE root_request_id IN (SELECT root_request_id FROM executions WHERE session_label = ?)

-- name: requests_by_status
SELECT coalesce(channel, ''), status, count(*) FROM requests GROUP BY 1, 2 ORDER BY 1, 2

-- name: usage_by_model
SELECT model, sum(calls), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
       sum(output_tokens), sum(cost_microusd)
FROM usage_days GROUP BY model ORDER BY model

-- name: ended_roots
-- By when they were made, for the index: none takes longer than what lies between `since` and `at`.
SELECT r.id, r.ended_at,
       EXISTS (SELECT 1 FROM executions AS e
               WHERE e.root_request_id = r.id AND e.status IN ('queued', 'running'))
       OR EXISTS (SELECT 1 FROM invocations AS i
                  WHERE i.root_request_id = r.id AND i.status IN ('queued', 'running'))
FROM requests AS r
WHERE r.root_request_id = r.id AND r.created_at > :since AND (r.ended_at, r.id) > (:at, :id)
  AND r.ended_at <= :now
ORDER BY r.ended_at, r.id LIMIT 50

-- name: last_usage_of_session
SELECT u.input_tokens + u.cache_read_tokens + u.cache_write_tokens + u.output_tokens
FROM usage AS u JOIN executions AS e ON e.id = u.execution_id
WHERE e.session_label = :session_label AND e.id <> :but AND u.output_tokens > 0 AND NOT u.estimated
  AND (:request_id IS NULL OR EXISTS (
    SELECT 1 FROM requests AS r JOIN requests AS own
      ON (r.principal_id, r.access_json) IS (own.principal_id, own.access_json)
    WHERE r.id = e.request_id AND own.id = :request_id))
ORDER BY u.rowid DESC LIMIT 1

-- name: usage_of_execution
SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0),
       coalesce(sum(cache_write_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_microusd), 0),
       count(*) - count(cost_microusd)
FROM usage WHERE execution_id = ?

-- name: usage_of_request
SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0),
       coalesce(sum(cache_write_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_microusd), 0),
       count(*) - count(cost_microusd)
FROM usage WHERE root_request_id = (SELECT root_request_id FROM requests WHERE id = ?1) AND request_id = ?1

-- name: usage_of_roles
SELECT coalesce(sum(calls), 0), coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0),
       coalesce(sum(cache_write_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cost_microusd), 0),
       coalesce(sum(unpriced_calls), 0)
FROM usage_days WHERE role IN (SELECT value FROM json_each(?)) AND day >= ?

-- name: record_span
-- Recorded again after a restart, a span keeps its beginning.
INSERT INTO spans (id, parent_span_id, request_id, root_request_id, execution_id, kind, name, started_at,
                   duration_ms, outcome, attributes_json)
VALUES (:id, :parent_span_id, :request_id, :root_request_id, :execution_id, :kind, :name, :started_at,
        :duration_ms, :outcome, :attributes)
ON CONFLICT (id) DO UPDATE
SET duration_ms = excluded.duration_ms, outcome = excluded.outcome, attributes_json = excluded.attributes_json

-- name: create_dispatch
INSERT INTO dispatches (id, parent_request_id, root_request_id, parent_session_label, parent_execution_id,
                        call_id, worker_request_id, worker_session_label, execution_id, task)
VALUES (:id, :parent_request_id, :root_request_id, :parent_session_label, :parent_execution_id,
        :call_id, :worker_request_id, :worker_session_label, :execution_id, :task)
ON CONFLICT (id) DO NOTHING

-- name: dispatch
SELECT id, parent_request_id, root_request_id, parent_session_label, parent_execution_id, call_id,
       worker_request_id, worker_session_label, execution_id, task, status, delivered_to,
       delivered_call_id, created_at, ended_at
FROM dispatches WHERE id = ?

-- name: dispatch_of_worker
SELECT id, parent_request_id, root_request_id, parent_session_label, parent_execution_id, call_id,
       worker_request_id, worker_session_label, execution_id, task, status, delivered_to,
       delivered_call_id, created_at, ended_at
FROM dispatches WHERE worker_request_id = ?

-- name: dispatches_of_session
SELECT id, parent_request_id, root_request_id, parent_session_label, parent_execution_id, call_id,
       worker_request_id, worker_session_label, execution_id, task, status, delivered_to,
       delivered_call_id, created_at, ended_at
FROM dispatches
WHERE parent_session_label = :session_label AND EXISTS (
  SELECT 1 FROM requests AS r JOIN requests AS own
    ON (r.principal_id, r.access_json) IS (own.principal_id, own.access_json)
  WHERE r.id = dispatches.parent_request_id AND own.id = :request_id)
  AND (:id IS NULL OR id = :id)
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: dispatches_of_root
SELECT id, parent_request_id, root_request_id, parent_session_label, parent_execution_id, call_id,
       worker_request_id, worker_session_label, execution_id, task, status, delivered_to,
       delivered_call_id, created_at, ended_at
FROM dispatches WHERE root_request_id = ? ORDER BY created_at, id

-- name: undelivered_dispatches
SELECT id, parent_request_id, root_request_id, parent_session_label, parent_execution_id, call_id,
       worker_request_id, worker_session_label, execution_id, task, status, delivered_to,
       delivered_call_id, created_at, ended_at
FROM dispatches WHERE delivered_to IS NULL
UNION ALL
-- A crash came between the decision to send a message and its run. It is looked for among the newest.
SELECT id, parent_request_id, root_request_id, parent_session_label, parent_execution_id, call_id,
       worker_request_id, worker_session_label, execution_id, task, status, delivered_to,
       delivered_call_id, created_at, ended_at
FROM dispatches
WHERE rowid > (SELECT max(rowid) FROM dispatches) - 10000 AND delivered_to IS NOT NULL
  AND delivered_call_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = dispatches.delivered_to)
ORDER BY created_at, id

-- name: dispatch_of_call
SELECT id, parent_request_id, root_request_id, parent_session_label, parent_execution_id, call_id,
       worker_request_id, worker_session_label, execution_id, task, status, delivered_to,
       delivered_call_id, created_at, ended_at
FROM dispatches WHERE parent_execution_id = ? AND call_id = ?

-- name: dispatches_of_execution
SELECT id, parent_request_id, root_request_id, parent_session_label, parent_execution_id, call_id,
       worker_request_id, worker_session_label, execution_id, task, status, delivered_to,
       delivered_call_id, created_at, ended_at
FROM dispatches WHERE parent_execution_id = ? ORDER BY created_at, id

-- name: dispatches_claimed_by
SELECT id, parent_request_id, root_request_id, parent_session_label, parent_execution_id, call_id,
       worker_request_id, worker_session_label, execution_id, task, status, delivered_to,
       delivered_call_id, created_at, ended_at
FROM dispatches WHERE delivered_to = ? AND delivered_call_id IS NOT NULL ORDER BY created_at, id

-- name: end_dispatch
UPDATE dispatches SET status = :status, ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = :id AND status = 'running'

-- name: claim_dispatch
UPDATE dispatches SET delivered_to = :execution_id, delivered_call_id = :call_id
WHERE id = :id AND (delivered_to IS NULL OR (delivered_to = :execution_id AND delivered_call_id IS :call_id))

-- name: take_back_dispatch
UPDATE dispatches SET delivered_to = NULL, delivered_call_id = NULL WHERE id = ?

-- name: release_dispatches
UPDATE dispatches SET delivered_to = NULL, delivered_call_id = NULL
WHERE delivered_to = :execution_id AND delivered_call_id IS coalesce(:call_id, delivered_call_id) AND status = 'running'

-- name: request_named
-- By its own id or the beginning of it, or by that of what it caused or was caused by.
SELECT id FROM requests WHERE id >= :text AND id < :text || '~'
UNION SELECT request_id FROM executions WHERE id >= :text AND id < :text || '~'
UNION SELECT id FROM requests WHERE event_id = :text
UNION SELECT worker_request_id FROM dispatches WHERE id = :text
UNION SELECT request_id FROM spans WHERE id = :text
UNION SELECT request_id FROM usage WHERE id = :text
UNION SELECT root_request_id FROM usage WHERE root_request_id = :text
ORDER BY 1 LIMIT 6

-- name: root_of
SELECT coalesce((SELECT root_request_id FROM requests WHERE id = :id), :id)

-- name: traced_executions
SELECT id, request_id, session_label, status, error, taken_by, enqueued_at, started_at, ended_at
FROM executions WHERE root_request_id = ? ORDER BY rowid

-- name: traced_spans
SELECT id, parent_span_id, request_id, execution_id, kind, name, started_at, duration_ms, outcome,
       attributes_json
FROM spans WHERE root_request_id = ? ORDER BY started_at, id

-- name: traced_invocations
SELECT run.id AS id, run.request_id AS request_id, automation.name AS name, run.hook_point AS hook_point,
       run.status AS status, run.error AS error, run.duration_ms AS duration_ms,
       coalesce(run.started_at, run.created_at) AS began
FROM invocations AS run JOIN automations AS automation ON automation.id = run.automation_id
WHERE run.root_request_id = ? ORDER BY run.created_at, run.id

-- name: traced_usage
SELECT request_id, execution_id, invocation_id, span_id, count(*) AS calls,
       sum(input_tokens) AS input_tokens, sum(cache_read_tokens) AS cache_read_tokens,
       sum(cache_write_tokens) AS cache_write_tokens, sum(output_tokens) AS output_tokens,
       coalesce(sum(cost_microusd), 0) AS cost_microusd, count(*) - count(cost_microusd) AS unpriced_calls
FROM usage WHERE root_request_id = ? GROUP BY request_id, execution_id, invocation_id, span_id

-- name: automation_columns
id, name, description, mode, status, script_path, script_hash, triggers_json, config_json, created_by_agent,
created_by_session, created_by_thread, version, previous_version_id, created_at, updated_at, disabled_at,
disabled_reason, last_triggered, trigger_count, last_error, consecutive_errors, circuit_state,
circuit_opened_at, hook_point, workspace_dir, peer_workspaces, self_improvement, timeout_ms, blocking, priority,
retries

-- name: automations
-- Of each name the row that counts: the newest version that was not superseded.
SELECT {columns} FROM automations AS a
WHERE status <> 'superseded' AND version = (
  SELECT max(version) FROM automations AS other WHERE other.name = a.name AND other.status <> 'superseded')
ORDER BY coalesce(hook_point, 'runAutomations'), blocking DESC, priority, id

-- name: automation_by_id
SELECT {columns} FROM automations WHERE id = ?

-- name: automation_versions
SELECT {columns} FROM automations WHERE name = ? ORDER BY version DESC, id DESC

-- name: count_automation_names
SELECT count(DISTINCT name) FROM automations WHERE substr(name, 1, length(?1)) = ?1

-- name: add_automation
INSERT INTO automations (
  id, name, description, mode, status, script_path, script_hash, triggers_json, config_json, created_by_agent,
  created_by_session, created_by_thread, version, previous_version_id, hook_point, workspace_dir,
  peer_workspaces, self_improvement, timeout_ms, blocking, priority, retries)
VALUES (
  :id, :name, :description, :mode, 'active', :script_path, :script_hash, :triggers_json, :config_json,
  :created_by_agent, :created_by_session, :created_by_thread, :version, :previous_version_id, :hook_point,
  :workspace_dir, :peer_workspaces, :self_improvement, :timeout_ms, :blocking, :priority, :retries)

-- name: supersede_automation
UPDATE automations
SET status = 'superseded', updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE name = ? AND status <> 'superseded'

-- name: enable_automation
UPDATE automations
SET status = 'active', disabled_at = NULL, disabled_reason = NULL, consecutive_errors = 0,
    circuit_state = 'closed', circuit_opened_at = NULL, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = ?

-- name: disable_automation
UPDATE automations
SET status = 'disabled', disabled_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), disabled_reason = :reason,
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = :id

-- name: adopt_script
UPDATE automations SET script_hash = :hash, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE id = :id

-- name: automation_succeeded
UPDATE automations
SET trigger_count = trigger_count + 1, last_triggered = :at, last_error = NULL, consecutive_errors = 0,
    circuit_state = 'closed', circuit_opened_at = NULL,
    status = iif(mode IN ('once', 'oneshot'), 'disabled', status),
    disabled_at = iif(mode IN ('once', 'oneshot'), :at, disabled_at),
    disabled_reason = iif(mode IN ('once', 'oneshot'), 'it was to run once, and did', disabled_reason)
WHERE id = :id

-- name: automation_failed
-- A failed trial of a half-open circuit opens it again at once.
UPDATE automations
SET trigger_count = trigger_count + 1, last_triggered = :at, last_error = :error,
    consecutive_errors = consecutive_errors + 1,
    circuit_opened_at = iif(circuit_state = 'half_open' OR consecutive_errors + 1 >= :limit,
                            :at, circuit_opened_at),
    circuit_state = iif(circuit_state = 'half_open' OR consecutive_errors + 1 >= :limit,
                        'open', circuit_state)
WHERE id = :id

-- name: circuit
SELECT circuit_state, circuit_opened_at, status, trigger_count FROM automations WHERE id = ?

-- name: add_invocation
INSERT INTO invocations (
  id, automation_id, automation_version, hook_point, request_id, root_request_id, blocking, status,
  result_json, error, duration_ms, created_at, started_at, ended_at, input_json, output, attempts,
  retries_left, retry_at)
VALUES (
  :id, :automation_id, :automation_version, :hook_point, :request_id, :root_request_id, :blocking, :status,
  :result_json, :error, :duration_ms, :created_at, :started_at, :ended_at, :input_json, :output, :attempts,
  :retries_left, :retry_at)
ON CONFLICT (id) DO NOTHING

-- name: begin_invocation
UPDATE invocations
SET status = 'running', retry_at = NULL, started_at = coalesce(started_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
WHERE id = ? AND status IN ('queued', 'running')

-- name: end_invocation
UPDATE invocations
SET status = :status, result_json = :result_json, error = :error, duration_ms = :duration_ms,
    ended_at = :ended_at, output = :output
WHERE id = :id AND status IN ('queued', 'running')

-- name: invocation
SELECT id, automation_id, automation_version, hook_point, request_id, root_request_id, blocking, status,
       result_json, error, duration_ms, created_at, started_at, ended_at, input_json, output, attempts,
       retries_left, retry_at
FROM invocations WHERE id = ?

-- name: invocations_of_name
SELECT i.id, i.automation_id, i.automation_version, i.hook_point, i.request_id, i.root_request_id, i.blocking,
       i.status, i.result_json, i.error, i.duration_ms, i.created_at, i.started_at, i.ended_at, i.input_json,
       i.output, i.attempts, i.retries_left, i.retry_at
FROM invocations AS i JOIN automations AS a ON a.id = i.automation_id
WHERE a.name = :name AND (:status IS NULL OR i.status = :status)
ORDER BY i.created_at DESC, i.id DESC LIMIT :limit

-- name: invocations_gone_wrong
SELECT i.id, i.automation_id, i.automation_version, i.hook_point, i.request_id, i.root_request_id, i.blocking,
       i.status, i.result_json, i.error, i.duration_ms, i.created_at, i.started_at, i.ended_at, i.input_json,
       i.output, i.attempts, i.retries_left, i.retry_at
FROM automations AS a JOIN invocations AS i ON i.automation_id = a.id
WHERE a.name = :name AND i.created_at >= :since AND i.input_json IS NOT NULL
  AND i.status IN ('failed', 'timeout', 'flagged')
ORDER BY i.created_at DESC, i.id DESC LIMIT :limit

-- name: invocations_before
SELECT id, automation_id, automation_version, hook_point, request_id, root_request_id, blocking, status,
       result_json, error, duration_ms, created_at, started_at, ended_at, input_json, output, attempts,
       retries_left, retry_at
FROM invocations
WHERE automation_id = :automation_id AND (created_at, id) < (:at, :id) AND created_at >= :since
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: postpone_invocation
UPDATE invocations
SET status = 'queued', error = :error, duration_ms = :duration_ms, output = :output, attempts = attempts + 1,
    retries_left = retries_left - 1, retry_at = :retry_at
WHERE id = :id AND status IN ('queued', 'running') AND retries_left > 0

-- name: dead_invocations
SELECT i.id, i.automation_id, i.automation_version, i.hook_point, i.request_id, i.root_request_id, i.blocking,
       i.status, i.result_json, i.error, i.duration_ms, i.created_at, i.started_at, i.ended_at, i.input_json,
       i.output, i.attempts, i.retries_left, i.retry_at, a.name
FROM invocations AS i JOIN automations AS a ON a.id = i.automation_id
WHERE i.blocking = 0 AND i.status IN ('failed', 'timeout') AND i.input_json IS NOT NULL
  AND (:name IS NULL OR a.name = :name)
ORDER BY i.created_at DESC, i.id DESC LIMIT :limit

-- name: count_dead_invocations
SELECT count(*) FROM invocations
WHERE blocking = 0 AND status IN ('failed', 'timeout') AND input_json IS NOT NULL

-- name: retry_invocation
UPDATE invocations
SET status = 'queued', attempts = attempts + 1, retry_at = NULL, ended_at = NULL,
    retries_left = (SELECT retries FROM automations WHERE id = invocations.automation_id)
WHERE id = ? AND blocking = 0 AND status IN ('failed', 'timeout') AND input_json IS NOT NULL

-- name: dismiss_invocation
UPDATE invocations SET input_json = NULL
WHERE id = ? AND blocking = 0 AND status IN ('failed', 'timeout') AND input_json IS NOT NULL

-- name: lose_invocation
UPDATE invocations SET status = 'failed', error = :error, ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = :id AND attempts = :attempts AND status IN ('queued', 'running')

-- name: unfinished_invocations
SELECT id, attempts FROM invocations WHERE status IN ('queued', 'running') AND blocking = 0 ORDER BY id

-- name: executions_of_request
SELECT id, request_id, session_label, lane, work, mode, input_json, taken_by, status, result_json, error,
       enqueued_at, started_at, ended_at, timeout_ms, waiting_since, waiting_for
FROM executions WHERE request_id = :request_id AND session_label = :session_label ORDER BY rowid

-- name: unanswered_executions
SELECT error FROM executions
WHERE request_id = :request_id AND substr(session_label, 1, length(:label)) = :label AND status = 'failed'
  AND error GLOB 'ModelError: *'

-- name: earlier_execution_in
SELECT 1 FROM executions WHERE session_label = :session_label AND id <> :id AND started_at IS NOT NULL
  AND json_extract(input_json, '$.context.is_prepared') IS NOT 0 LIMIT 1

-- name: add_injection
INSERT INTO injections (
  id, invocation_id, request_id, root_request_id, execution_id, rank, item_kind, item_id, text_sha256, score,
  probability, why, decided_by, injected)
VALUES (
  :id, :invocation_id, :request_id, :root_request_id, :execution_id, :rank, :item_kind, :item_id, :text_sha256,
  :score, :probability, :why, :decided_by, :injected)
ON CONFLICT DO NOTHING

-- name: use_injection
UPDATE injections SET used = :used, used_by = :used_by
WHERE request_id = :request_id AND item_id = :item_id AND injected

-- name: injections_of_root
SELECT id, invocation_id, request_id, root_request_id, execution_id, rank, item_kind, item_id, text_sha256, score,
       probability, why, decided_by, injected, used, used_by, created_at
FROM injections WHERE root_request_id = ? ORDER BY invocation_id, rank

-- name: injected_below
SELECT id, invocation_id, request_id, root_request_id, execution_id, rank, item_kind, item_id, text_sha256, score,
       probability, why, decided_by, injected, used, used_by, created_at
FROM injections WHERE root_request_id IN (SELECT value FROM json_each(:roots)) AND injected
ORDER BY invocation_id, rank LIMIT :limit

-- name: injections_of_item
SELECT id, invocation_id, request_id, root_request_id, execution_id, rank, item_kind, item_id, text_sha256, score,
       probability, why, decided_by, injected, used, used_by, created_at
FROM injections WHERE item_id = :item_id AND injected ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: known_model
SELECT known_json FROM models WHERE name = ? AND address = ?

-- name: known_models
SELECT name, known_json FROM models ORDER BY name

-- name: forget_model
DELETE FROM models WHERE name = ?

-- name: learn_model
INSERT INTO models (name, address, known_json) VALUES (:name, :address, :known)
ON CONFLICT (name) DO UPDATE
SET known_json = CASE address WHEN :address THEN json_patch(known_json, :known) ELSE :known END,
    address = :address, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- name: unfinished_of_root
SELECT count(*) FROM invocations AS i JOIN automations AS a ON a.id = i.automation_id
WHERE i.root_request_id = :root_request_id AND a.name = :automation
  AND i.status IN ('queued', 'running') AND i.retry_at IS NULL

-- name: channel
SELECT name, paused, status, reason, restarts, last_message_at, updated_at, answer, quiet_hours, zone
FROM channels WHERE name = :name

-- name: channel_cursor
SELECT cursor_json FROM channels WHERE name = :name

-- name: keep_channel_cursor
INSERT INTO channels (name, cursor_json) VALUES (:name, :cursor)
ON CONFLICT (name) DO UPDATE SET cursor_json = excluded.cursor_json

-- name: channel_state
INSERT INTO channels (name, status, reason) VALUES (:name, :status, :reason)
ON CONFLICT (name) DO UPDATE
SET status = excluded.status, reason = excluded.reason, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    restarts = CASE excluded.status WHEN 'connected' THEN 0 WHEN 'waiting' THEN restarts + 1 ELSE restarts END

-- name: pause_channel
INSERT INTO channels (name, paused, status) VALUES (:name, :paused, CASE :paused WHEN 1 THEN 'paused' ELSE 'stopped' END)
ON CONFLICT (name) DO UPDATE
SET paused = excluded.paused, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- name: set_channel
INSERT INTO channels (name, answer, quiet_hours, zone) VALUES (:name, :answer, :quiet_hours, :zone)
ON CONFLICT (name) DO UPDATE
SET answer = excluded.answer, quiet_hours = excluded.quiet_hours, zone = excluded.zone

-- name: channel_heard
INSERT INTO channels (name, last_message_at) VALUES (:name, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
ON CONFLICT (name) DO UPDATE SET last_message_at = excluded.last_message_at

-- name: queued_seq
SELECT queued_seq FROM channels WHERE name = :name

-- name: keep_queued_seq
INSERT INTO channels (name, queued_seq) VALUES (:name, :seq)
ON CONFLICT (name) DO UPDATE SET queued_seq = excluded.queued_seq

-- name: queue_delivery
INSERT INTO deliveries (event_id, channel, thread_id, unasked) VALUES (:event_id, :channel, :thread_id, :unasked)
ON CONFLICT (event_id) DO NOTHING

-- name: due_deliveries
SELECT d.event_id, d.channel, d.thread_id, d.status, d.attempts, d.next_at, d.external_id, d.error, d.created_at
FROM deliveries AS d
WHERE d.channel = :channel AND d.status = 'waiting' AND (d.next_at <= :now OR d.next_at > :at_most)
  AND NOT (:quiet AND d.unasked)
  AND NOT EXISTS (
    SELECT 1 FROM deliveries AS earlier
    WHERE earlier.channel = d.channel AND earlier.thread_id = d.thread_id AND earlier.status = 'waiting'
      AND earlier.rowid < d.rowid AND NOT (:quiet AND earlier.unasked)
  )
ORDER BY d.rowid LIMIT :limit

-- name: deliveries_listed
SELECT event_id, channel, thread_id, status, attempts, next_at, external_id, error, created_at
FROM deliveries WHERE (:channel IS NULL OR channel = :channel) AND status = :status
  AND created_at >= :since AND (:until IS NULL OR created_at < :until)
ORDER BY rowid DESC LIMIT :limit

-- name: next_delivery_at
SELECT min(next_at) FROM deliveries WHERE channel = :channel AND status = 'waiting' AND NOT (:quiet AND unasked)

-- name: delivery_sent
UPDATE deliveries
SET status = 'sent', attempts = attempts + 1, external_id = :external_id, error = NULL,
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE event_id = :event_id

-- name: delivery_sent_as
SELECT external_id FROM deliveries WHERE event_id = ? AND status = 'sent'

-- name: delivery_failed
UPDATE deliveries
SET status = CASE WHEN :next_at IS NULL THEN 'failed' ELSE 'waiting' END, attempts = attempts + 1,
    next_at = coalesce(:next_at, next_at), error = :error, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE event_id = :event_id

-- name: retry_deliveries
UPDATE deliveries
SET status = 'waiting', attempts = 0, next_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE status = 'failed' AND channel = :channel

-- name: set_aside
INSERT INTO set_aside (id, channel, external_id, sender, body_json, reason)
VALUES (:id, :channel, :external_id, :sender, :body, :reason)
ON CONFLICT (channel, external_id) DO UPDATE SET reason = excluded.reason

-- name: keep_received
INSERT INTO set_aside (id, channel, external_id, sender, body_json, reason)
VALUES (:id, :channel, :external_id, :sender, :body, 'received')
ON CONFLICT (channel, external_id) DO UPDATE SET body_json = excluded.body_json, reason = 'received'
WHERE reason <> 'received'

-- name: received
SELECT body_json FROM set_aside WHERE channel = :channel AND reason = 'received' ORDER BY rowid LIMIT :limit

-- name: end_received
DELETE FROM set_aside WHERE channel = :channel AND external_id = :external_id AND reason = 'received'

-- name: set_aside_listed
SELECT id, channel, external_id, sender, body_json, reason, created_at
FROM set_aside WHERE (:channel IS NULL OR channel = :channel) AND reason <> 'received'
  AND created_at >= :since AND (:until IS NULL OR created_at < :until)
ORDER BY rowid LIMIT :limit

-- name: take_set_aside
DELETE FROM set_aside WHERE id = :id

-- name: channel_counts
SELECT
  (SELECT count(*) FROM deliveries WHERE channel = :name AND status = 'waiting'),
  (SELECT count(*) FROM deliveries WHERE channel = :name AND status = 'failed'),
  (SELECT count(*) FROM set_aside WHERE channel = :name AND reason <> 'received')

-- name: withdraw_approvals
-- The same place of a run asks for another call now.
UPDATE approvals SET status = 'withdrawn'
WHERE execution_id = ? AND call_key = ? AND call_hash <> ? AND status IN ('waiting', 'allowed')

-- name: ask_approval
-- What was begun in this place may have had an effect, whatever call it was.
INSERT INTO approvals
  (id, request_id, root_request_id, execution_id, call_key, session_label, tool, arguments_json, call_hash, reason,
   tainted_by, preview, started_at)
SELECT :id, :request_id, request.root_request_id, :execution_id, :call_key,
       coalesce(root.session_label, request.session_label, ''), :tool, :arguments, :call_hash, :reason,
       :tainted_by, :preview,
       (SELECT max(started_at) FROM approvals WHERE execution_id = :execution_id AND call_key = :call_key)
FROM requests AS request LEFT JOIN requests AS root ON root.id = request.root_request_id
WHERE request.id = :request_id
ON CONFLICT DO NOTHING

-- name: is_unmade
SELECT count(*) > 0 AND max(started_at) IS NULL FROM approvals WHERE execution_id = ? AND call_key = ?

-- name: approval_of_call
SELECT approvals.id, approvals.request_id, approvals.execution_id, call_key, approvals.session_label, tool, arguments_json,
       call_hash, reason, tainted_by, preview, approvals.status, scope, pattern, approvals.started_at, approvals.created_at,
       coalesce(json_extract(requests.access_json, '$.level'), 'unknown')
FROM approvals LEFT JOIN requests ON requests.id = approvals.request_id
WHERE approvals.execution_id = ? AND call_key = ? AND call_hash = ?

-- name: approval
SELECT approvals.id, approvals.request_id, approvals.execution_id, call_key, approvals.session_label, tool, arguments_json,
       call_hash, reason, tainted_by, preview, approvals.status, scope, pattern, approvals.started_at, approvals.created_at,
       coalesce(json_extract(requests.access_json, '$.level'), 'unknown')
FROM approvals LEFT JOIN requests ON requests.id = approvals.request_id
WHERE approvals.id = ?

-- name: waiting_approvals
-- A run that was stopped waits no more.
SELECT approvals.id, approvals.request_id, approvals.execution_id, call_key, approvals.session_label, tool, arguments_json,
       call_hash, reason, tainted_by, preview, approvals.status, scope, pattern, approvals.started_at, approvals.created_at,
       coalesce(json_extract(requests.access_json, '$.level'), 'unknown')
FROM approvals LEFT JOIN requests ON requests.id = approvals.request_id
JOIN executions ON executions.id = approvals.execution_id AND executions.status IN ('queued', 'running')
WHERE approvals.status = 'waiting' AND (:session_label IS NULL OR approvals.session_label = :session_label)
ORDER BY approvals.created_at, approvals.id

-- name: approval_rules
-- A rule belongs to whoever gave it: the owner, for calls made for themself.
SELECT DISTINCT pattern
FROM approvals JOIN requests AS given ON given.id = approvals.request_id JOIN requests AS own ON own.id = :request_id
WHERE pattern IS NOT NULL AND approvals.status = 'allowed' AND tainted_by IS NULL
  AND given.principal_id IS own.principal_id
  AND json_extract(given.access_json, '$.level') = 'owner' AND json_extract(own.access_json, '$.level') = 'owner'
  AND (scope = 'always' OR (scope = 'session' AND approvals.session_label = :session_label))

-- name: decide_approval
UPDATE approvals
SET status = :status, scope = :scope, pattern = :pattern, decided_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = :id AND status = 'waiting'
  AND EXISTS (SELECT 1 FROM executions WHERE executions.id = execution_id AND executions.status IN ('queued', 'running'))

-- name: start_approved
UPDATE approvals SET started_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE id = ? AND status = 'allowed' AND started_at IS NULL

-- name: subscribe_push
INSERT INTO push_subscriptions (id, endpoint, p256dh, auth, session, browser, created_at)
VALUES (:id, :endpoint, :p256dh, :auth, :session, :browser, :now)
ON CONFLICT (endpoint) DO UPDATE
SET p256dh = excluded.p256dh, auth = excluded.auth, session = excluded.session, browser = excluded.browser, failure = NULL

-- name: push_subscriptions
SELECT id, endpoint, p256dh, auth, session, browser, created_at, last_sent_at, failure
FROM push_subscriptions ORDER BY created_at, id

-- name: unsubscribe_push
DELETE FROM push_subscriptions WHERE id = ?

-- name: unsubscribe_push_endpoint
DELETE FROM push_subscriptions WHERE endpoint = ?

-- name: unsubscribe_push_session
DELETE FROM push_subscriptions WHERE session = ?

-- name: unsubscribe_push_all
DELETE FROM push_subscriptions

-- name: push_arrived
UPDATE push_subscriptions SET last_sent_at = :now, failure = NULL WHERE id = :id

-- name: push_failed
UPDATE push_subscriptions SET failure = :failure WHERE id = :id

-- name: claim_push
INSERT INTO push_sent (item_id, created_at) VALUES (:item, :now) ON CONFLICT DO NOTHING RETURNING item_id

-- name: release_push
DELETE FROM push_sent WHERE item_id = ?

-- name: prune_push
DELETE FROM push_sent WHERE created_at < ?

-- name: pushed
SELECT item_id FROM push_sent WHERE item_id IN (SELECT value FROM json_each(?))

-- name: approvals_to_push
SELECT id, tool, arguments_json, tainted_by IS NOT NULL FROM approvals
WHERE status = 'waiting' AND created_at >= :since ORDER BY created_at LIMIT :limit

-- name: workers_to_push
-- Of the owner's own sessions, and only where no call of a tool waits for the result.
SELECT dispatches.id, parent_session_label, task, dispatches.status
FROM dispatches JOIN requests AS root ON root.id = dispatches.root_request_id
WHERE dispatches.ended_at >= :since AND dispatches.status IN ('done', 'failed', 'timeout')
  AND delivered_call_id IS NULL AND root.channel IN (SELECT value FROM json_each(:channels))
ORDER BY dispatches.ended_at LIMIT :limit
