-- What the search for replacements reads and writes.

-- name: position
SELECT position FROM succession_progress WHERE judge = ?

-- name: set_position
INSERT INTO succession_progress (judge, position) VALUES (?, ?)
ON CONFLICT DO UPDATE SET position = excluded.position, updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- name: newest
SELECT coalesce(max(seq), 0) FROM facts

-- name: waiting
SELECT count(*) FROM facts WHERE seq > ?

-- name: counts
SELECT basis, count(*) FROM fact_successions GROUP BY basis

-- name: drop_judged
DELETE FROM fact_successions WHERE basis = 'judged'

-- name: drop_progress
DELETE FROM succession_progress

-- name: restate
INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis)
SELECT cause_fact_id, effect_fact_id, min(1.0, max(0.0, confidence)), 'stated'
FROM causal_links AS l
WHERE relation = 'replaced' AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = l.effect_fact_id)
ORDER BY rowid
ON CONFLICT (old_fact_id) DO UPDATE
SET new_fact_id = excluded.new_fact_id, confidence = excluded.confidence, basis = excluded.basis

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
SELECT id, fact, coalesce(as_of, valid_at), seq, source_entity_id, target_entity_id, relation_type, source_event_id,
       CASE WHEN json_valid(metadata_json) THEN json_extract(metadata_json, '$.valid_until') END,
       (SELECT json_group_array(entity_id) FROM fact_entities WHERE fact_id = facts.id)
FROM facts WHERE id IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = facts.id)

-- name: links
SELECT old_fact_id, new_fact_id, confidence, basis FROM fact_successions
WHERE old_fact_id IN (SELECT value FROM json_each(?))

-- name: put
-- A fact may have been forgotten while its pairs were weighed, and what was stated stands.
INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis)
SELECT :old, :new, :confidence, 'judged'
WHERE EXISTS (SELECT 1 FROM facts WHERE id = :old) AND EXISTS (SELECT 1 FROM facts WHERE id = :new)
ON CONFLICT (old_fact_id) DO UPDATE
SET new_fact_id = excluded.new_fact_id, confidence = excluded.confidence, derived_at = excluded.derived_at
WHERE basis = 'judged'

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
