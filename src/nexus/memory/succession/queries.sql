-- What the search for replacements reads and writes.

-- name: position
SELECT position FROM succession_progress WHERE judge = ?

-- name: set_position
INSERT INTO succession_progress (judge, position) VALUES (?, ?)
ON CONFLICT DO UPDATE SET position = excluded.position, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- name: again
-- Facts that later ones are weighed against again: after which place in the log, and since when.
SELECT substr(judge, 7), position, updated_at FROM succession_progress WHERE judge >= 'again ' AND judge < 'again!'

-- name: drop_again
DELETE FROM succession_progress WHERE judge = 'again ' || ? AND updated_at = ?

-- name: weighed_against
-- Later facts up to a place that may have weighed a fact: those given, those that share an entity, those that claim it.
WITH near (id) AS (
  SELECT value FROM json_each(:near)
  UNION SELECT :fact
  UNION SELECT effect_fact_id FROM causal_links WHERE cause_fact_id = :fact AND relation = 'replaced'
  UNION SELECT * FROM (SELECT id FROM facts WHERE source_entity_id IN (SELECT value FROM json_each(:entities))
    AND seq > :after ORDER BY created_at LIMIT :limit)
  UNION SELECT * FROM (SELECT id FROM facts WHERE target_entity_id IN (SELECT value FROM json_each(:entities))
    AND seq > :after ORDER BY created_at LIMIT :limit)
  UNION SELECT * FROM (SELECT f.id FROM fact_entities AS n JOIN facts AS f ON f.id = n.fact_id
    WHERE n.entity_id IN (SELECT value FROM json_each(:entities)) AND f.seq > :after ORDER BY f.created_at LIMIT :limit)
)
SELECT seq, id, created_at FROM facts WHERE id IN (SELECT id FROM near) AND seq > :after AND seq <= :until

-- name: newest
SELECT coalesce(max(seq), 0) FROM facts

-- name: waiting
SELECT count(*) + (SELECT count(*) FROM succession_progress WHERE judge >= 'again ' AND judge < 'again!')
FROM facts WHERE seq > ?

-- name: counts
SELECT basis, count(*) FROM fact_successions GROUP BY basis

-- name: drop_judged
DELETE FROM fact_successions WHERE basis = 'judged'

-- name: drop_progress
DELETE FROM succession_progress

-- name: restate
INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis, how)
SELECT cause_fact_id, effect_fact_id, 1.0, 'stated', coalesce(how, 'changed')
FROM causal_links AS l
WHERE relation = 'replaced' AND confidence >= 1.0
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = l.effect_fact_id)
  AND NOT EXISTS (SELECT 1 FROM causal_links AS later
                  WHERE later.relation = 'distinct' AND later.rowid > l.rowid
                    AND (later.cause_fact_id, later.effect_fact_id) IN (
                      VALUES (l.cause_fact_id, l.effect_fact_id), (l.effect_fact_id, l.cause_fact_id)))
ORDER BY l.rowid
ON CONFLICT (old_fact_id) DO UPDATE
SET new_fact_id = excluded.new_fact_id, confidence = excluded.confidence, basis = excluded.basis,
    how = excluded.how, signals = excluded.signals

-- name: next_facts
SELECT seq, id, created_at FROM facts WHERE seq > :after AND seq <= :until ORDER BY seq LIMIT :limit

-- name: newest_ids
SELECT id FROM facts ORDER BY seq DESC LIMIT ?

-- name: sharing
-- The latest facts before a given one that are about, or name, one of its entities.
SELECT id FROM (
  SELECT * FROM (SELECT id, created_at FROM facts
    WHERE source_entity_id IN (SELECT value FROM json_each(:entities)) AND created_at <= :created_at AND seq < :seq
    ORDER BY created_at DESC LIMIT :limit)
  UNION
  SELECT * FROM (SELECT id, created_at FROM facts
    WHERE target_entity_id IN (SELECT value FROM json_each(:entities)) AND created_at <= :created_at AND seq < :seq
    ORDER BY created_at DESC LIMIT :limit)
  UNION
  SELECT * FROM (SELECT f.id, f.created_at FROM fact_entities AS n JOIN facts AS f ON f.id = n.fact_id
    WHERE n.entity_id IN (SELECT value FROM json_each(:entities)) AND f.seq < :seq
    ORDER BY f.created_at DESC LIMIT :limit)
)
ORDER BY created_at DESC LIMIT :limit

-- name: statements
-- Without those that only another one from their source may replace: two appointments of one name are both true.
SELECT id, fact, coalesce(as_of, valid_at), seq, source_entity_id, target_entity_id, relation_type, source_event_id,
       CASE WHEN json_valid(metadata_json) THEN json_extract(metadata_json, '$.valid_until') END,
       (SELECT json_group_array(entity_id) FROM fact_entities WHERE fact_id = facts.id), confidence
FROM facts WHERE id IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = facts.id)
  AND NOT (json_valid(metadata_json) AND coalesce(json_extract(metadata_json, '$.only_stated'), FALSE))

-- name: links
-- The links of the given facts, and those that follow on them.
WITH RECURSIVE later (id) AS (
  SELECT value FROM json_each(?)
  UNION
  SELECT l.new_fact_id FROM later JOIN fact_successions AS l ON l.old_fact_id = later.id
)
SELECT old_fact_id, new_fact_id, confidence, basis FROM fact_successions WHERE old_fact_id IN (SELECT id FROM later)

-- name: put
-- A fact may have been forgotten while its pairs were weighed, and what was stated stands.
INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis, how, signals)
SELECT :old, :new, :confidence, 'judged', :how, :signals
WHERE EXISTS (SELECT 1 FROM facts WHERE id = :old) AND EXISTS (SELECT 1 FROM facts WHERE id = :new)
ON CONFLICT (old_fact_id) DO UPDATE
SET new_fact_id = excluded.new_fact_id, confidence = excluded.confidence, how = excluded.how,
    signals = excluded.signals, derived_at = excluded.derived_at
WHERE basis = 'judged'

-- name: opinions
-- What a model claims and a person rules out about the given facts: old, new, `replaced` or `distinct`, how.
SELECT cause_fact_id, effect_fact_id, relation, how FROM causal_links
WHERE (relation = 'distinct' OR (relation = 'replaced' AND confidence < 1.0))
  AND effect_fact_id IN (SELECT value FROM json_each(?1))
UNION ALL
SELECT effect_fact_id, cause_fact_id, relation, how FROM causal_links
WHERE relation = 'distinct' AND cause_fact_id IN (SELECT value FROM json_each(?1))

-- name: messages
SELECT id, thread_id, substr(content, 1, 2000), channel FROM events WHERE id IN (SELECT value FROM json_each(?))

-- name: families
-- For each entity the one that it stands for now, with all that it is called.
WITH RECURSIVE up (start, id, next) AS (
  SELECT id, id, merged_into FROM entities WHERE id IN (SELECT value FROM json_each(?))
  UNION ALL
  SELECT up.start, entities.id, entities.merged_into FROM up JOIN entities ON entities.id = up.next
)
SELECT up.start, up.id, canonical_name || coalesce(
         (SELECT ' ' || group_concat(alias, ' ') FROM
            (SELECT alias FROM entity_aliases WHERE entity_id IN (up.id, up.start) AND type = 'name' LIMIT 20)), '')
FROM up JOIN entities ON entities.id = up.id WHERE next IS NULL
