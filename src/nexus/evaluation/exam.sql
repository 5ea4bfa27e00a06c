-- What an exam reads.

-- name: standing
-- Every fact that holds: when it was true, its kind, whom it is about, and its first word.
SELECT id, coalesce(as_of, valid_at),
       CASE WHEN target_entity_id IS NOT NULL THEN 'relationship'
            WHEN relation_type IS NOT NULL THEN 'attribute' ELSE 'statement' END,
       source_entity_id, substr(fact, 1, 60)
FROM facts
WHERE NOT EXISTS (SELECT 1 FROM fact_successions WHERE old_fact_id = facts.id)
  AND NOT EXISTS (SELECT 1 FROM rejected_facts WHERE fact_id = facts.id)
  AND coalesce(CASE WHEN json_valid(metadata_json) THEN metadata_json ->> 'valid_until' END, '9') > :now
ORDER BY seq

-- name: sampled
SELECT id, fact, relation_type, source_entity_id, target_entity_id, created_at, source_event_id, source_episode_id,
       source_request_id,
       (SELECT json_group_array(entity_id) FROM fact_entities WHERE fact_id = facts.id),
       (SELECT json_group_array(observation_id) FROM observation_facts WHERE fact_id = facts.id),
       CASE WHEN json_valid(metadata_json) THEN metadata_json ->> 'written' IS NOT NULL ELSE 0 END
         OR EXISTS (SELECT 1 FROM fact_verdicts WHERE fact_id = facts.id AND decision = 'accept'),
       EXISTS (SELECT 1 FROM pinned_facts WHERE fact_id = facts.id)
FROM facts WHERE id IN (SELECT value FROM json_each(?))

-- name: messages
SELECT id, content FROM events WHERE id IN (SELECT value FROM json_each(?))

-- name: requests
SELECT id FROM requests WHERE id IN (SELECT value FROM json_each(?))
