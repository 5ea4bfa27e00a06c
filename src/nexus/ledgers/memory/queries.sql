-- name: append_fact
INSERT INTO facts (
  id, source_entity_id, relation_type, target_entity_id, fact, confidence, source_type, as_of, valid_at,
  source_event_id, source_episode_id, source_request_id, metadata_json, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: counts
SELECT 'facts', count(*) FROM facts UNION ALL SELECT 'episodes', count(*) FROM episodes
UNION ALL SELECT 'observations', count(*) FROM observations
UNION ALL SELECT 'mental models', count(*) FROM mental_models
