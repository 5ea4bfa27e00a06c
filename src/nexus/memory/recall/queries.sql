-- Events, facts and what was made of them, as the arms of recall ask for them.
-- Scope parameters are JSON lists or null; null allows everything.

-- name: event_count
SELECT coalesce(max(seq), 0) FROM events

-- name: fact_count
SELECT coalesce(max(seq), 0) FROM facts

-- name: event_frequency
SELECT doc FROM events_terms WHERE term = ?

-- name: fact_frequency
SELECT doc FROM facts_terms WHERE term = ?

-- name: keyword_events
SELECT event_id, -bm25(events_fts, 0.0, 1.0, 1.0) FROM events_fts
WHERE events_fts MATCH :match ORDER BY rank LIMIT :limit

-- name: keyword_events_scoped
SELECT e.id, -bm25(events_fts, 0.0, 1.0, 1.0)
FROM events_fts JOIN events AS e ON e.seq = events_fts.rowid
WHERE events_fts MATCH :match
  AND (:threads IS NULL OR e.thread_id IN (SELECT value FROM json_each(:threads)))
  AND (:channel IS NULL OR e.channel = :channel)
  AND (:after IS NULL OR e.occurred_at >= :after) AND (:before IS NULL OR e.occurred_at < :before)
ORDER BY rank LIMIT :limit

-- name: keyword_facts
SELECT fact_id, -bm25(facts_fts, 0.0, 1.0) FROM facts_fts
WHERE facts_fts MATCH :match ORDER BY rank LIMIT :limit

-- name: keyword_facts_scoped
SELECT f.id, -bm25(facts_fts, 0.0, 1.0)
FROM facts_fts JOIN facts AS f ON f.seq = facts_fts.rowid
WHERE facts_fts MATCH :match
  AND (:after IS NULL OR f.valid_at >= :after) AND (:before IS NULL OR f.valid_at < :before)
ORDER BY rank LIMIT :limit

-- name: speaks
SELECT 1 FROM events_fts WHERE events_fts MATCH ? LIMIT 1

-- name: scoped_event_ids
SELECT id FROM events
WHERE (:threads IS NULL OR thread_id IN (SELECT value FROM json_each(:threads)))
  AND (:channel IS NULL OR channel = :channel)
  AND (:after IS NULL OR occurred_at >= :after) AND (:before IS NULL OR occurred_at < :before)

-- name: events_in_window
SELECT id FROM events
WHERE occurred_at >= :start AND occurred_at < :end
  AND (:threads IS NULL OR thread_id IN (SELECT value FROM json_each(:threads)))
  AND (:channel IS NULL OR channel = :channel)
ORDER BY occurred_at DESC LIMIT :limit

-- name: facts_in_window
SELECT id FROM facts WHERE valid_at >= :start AND valid_at < :end ORDER BY valid_at DESC LIMIT :limit

-- name: aliases
SELECT a.normalized, a.entity_id, e.canonical_name FROM entity_aliases AS a
JOIN entities AS e ON e.id = a.entity_id
WHERE a.normalized IN (SELECT value FROM json_each(?))
UNION
SELECT normalized_name, id, canonical_name FROM entities
WHERE normalized_name IN (SELECT value FROM json_each(?1))

-- name: root_entities
WITH RECURSIVE up (start, id, next) AS (
  SELECT e.id, e.id, e.merged_into FROM entities AS e WHERE e.id IN (SELECT value FROM json_each(?))
  UNION
  SELECT up.start, e.id, e.merged_into FROM up JOIN entities AS e ON e.id = up.next
)
SELECT DISTINCT id FROM up

-- name: facts_of_entities
SELECT id, 1.0 FROM facts
WHERE source_entity_id IN (SELECT value FROM json_each(:entities))
   OR target_entity_id IN (SELECT value FROM json_each(:entities))
   OR id IN (SELECT fact_id FROM fact_entities
             WHERE entity_id IN (SELECT value FROM json_each(:entities)))
ORDER BY seq DESC LIMIT :limit

-- name: causal_neighbours
SELECT effect_fact_id, confidence FROM causal_links WHERE cause_fact_id IN (SELECT value FROM json_each(:facts))
UNION ALL
SELECT cause_fact_id, confidence FROM causal_links WHERE effect_fact_id IN (SELECT value FROM json_each(:facts))
LIMIT :limit

-- name: event_places
SELECT seq, thread_id FROM events WHERE id IN (SELECT value FROM json_each(?))

-- name: before
SELECT seq FROM events WHERE thread_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?

-- name: after
SELECT seq FROM events WHERE thread_id = ? AND seq >= ? ORDER BY seq LIMIT ?

-- name: events
SELECT seq, id, content, occurred_at, sender, direction, thread_id
FROM events WHERE seq IN (SELECT value FROM json_each(?))

-- name: facts
SELECT f.id, f.fact, coalesce(f.as_of, f.valid_at), f.seq, f.source_event_id, f.confidence,
       f.source_entity_id, f.target_entity_id
FROM facts AS f WHERE f.id IN (SELECT value FROM json_each(?))

-- name: summaries
SELECT 'observation', id, content, created_at, confidence, stale_at FROM observations AS o
WHERE NOT EXISTS (SELECT 1 FROM analysis_runs AS n WHERE n.previous_version_id = o.id)
UNION ALL
SELECT 'mental_model', id, name || ': ' || content, created_at, 1.0, stale_at FROM mental_models AS m
WHERE NOT EXISTS (SELECT 1 FROM mental_models AS n WHERE n.previous_version_id = m.id)
UNION ALL
SELECT 'episode', id, coalesce(title || ': ', '') || summary, end_time, 1.0, NULL FROM episodes AS e
WHERE summary IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM episodes AS n WHERE n.previous_version_id = e.id)
LIMIT ?
