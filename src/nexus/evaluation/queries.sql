-- name: facts
SELECT id, fact, source_entity_id, target_entity_id, source_type, source_event_id,
       json_extract(metadata_json, '$.speaker')
FROM facts ORDER BY seq

-- name: successions
SELECT old_fact_id, new_fact_id FROM fact_successions

-- name: names
SELECT id, canonical_name FROM entities

-- name: aliases
SELECT entity_aliases.id, entities.canonical_name || ': ' || entity_aliases.alias, entity_aliases.source_type,
       entity_aliases.source_event_id
FROM entity_aliases JOIN entities ON entities.id = entity_aliases.entity_id
WHERE entity_aliases.normalized <> entities.normalized_name
ORDER BY entity_aliases.id

-- name: person_facts
SELECT person_facts.id, persons.display_name || ': ' || person_facts.fact_type || ' ' || person_facts.value,
       person_facts.source_type, person_facts.source_event_id
FROM person_facts JOIN persons ON persons.id = person_facts.person_id
ORDER BY person_facts.id

-- name: senders
SELECT id, sender FROM events

-- name: invocations
SELECT invocations.status, invocations.error, invocations.result_json
FROM invocations JOIN automations ON automations.id = invocations.automation_id
WHERE automations.name = 'memory-writer' ORDER BY invocations.created_at, invocations.id

-- name: usage
SELECT coalesce(role, ''), count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
       sum(output_tokens), coalesce(sum(cost_microusd), 0), sum(cost_microusd IS NULL)
FROM usage WHERE provider <> 'transcript' GROUP BY role ORDER BY role

-- name: latest
SELECT max(enqueued_at), max(started_at), max(ended_at) FROM executions
