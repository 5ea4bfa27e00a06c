-- The owner's profile and the facts that it is made of.

-- name: newest
SELECT id, version, content, origin, written, written_at, source_request_id, created_at
FROM owner_profiles ORDER BY version DESC LIMIT 1

-- name: versions
SELECT id, version, content, origin, written, written_at, source_request_id, created_at
FROM owner_profiles ORDER BY version DESC LIMIT ?

-- name: add
INSERT INTO owner_profiles (id, version, content, origin, written, written_at, source_request_id, created_at)
VALUES (:id, coalesce((SELECT max(version) FROM owner_profiles), 0) + 1, :content, :origin, :written, :written_at,
        :request, :now)

-- name: has
SELECT 1 FROM owner_profiles WHERE id = ?

-- name: cite
INSERT INTO owner_profile_facts (profile_id, fact_id, line) SELECT :profile, id, :line FROM facts WHERE id = :fact
ON CONFLICT DO NOTHING

-- name: citations
SELECT c.line, c.fact_id, f.fact, f.source_event_id
FROM owner_profile_facts AS c JOIN facts AS f ON f.id = c.fact_id WHERE c.profile_id = ? ORDER BY c.line, f.seq

-- name: known_through
-- A mark that changes with every fact, every decision about one, and every replacement.
SELECT json_array((SELECT max(seq) FROM facts), (SELECT max(seq) FROM fact_reviews), count(*), max(derived_at))
FROM fact_successions

-- name: rests_on_replaced
SELECT EXISTS (
  SELECT 1 FROM owner_profile_facts AS c JOIN fact_successions AS l ON l.old_fact_id = c.fact_id WHERE c.profile_id = ?)

-- name: current_facts
-- What still holds about some entities, the newest first, and whether it is pinned.
WITH named (id) AS (SELECT value FROM json_each(:entities)),
about (id) AS (
  SELECT id FROM facts WHERE source_entity_id IN named
  UNION SELECT id FROM facts WHERE target_entity_id IN named
  UNION SELECT fact_id FROM fact_entities WHERE entity_id IN named
)
SELECT f.id, f.fact, f.created_at, f.source_entity_id, f.target_entity_id, f.confidence, f.relation_type,
       (SELECT group_concat(entity_id) FROM fact_entities WHERE fact_id = f.id),
       EXISTS (SELECT 1 FROM pinned_facts WHERE fact_id = f.id)
FROM facts AS f
WHERE f.id IN about
  AND NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = f.id)
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = f.id)
  AND NOT (json_valid(f.metadata_json) AND coalesce(json_extract(f.metadata_json, '$.valid_until') <= :now, 0))
ORDER BY 9 DESC, coalesce(f.as_of, f.valid_at) DESC, f.seq DESC LIMIT :limit
