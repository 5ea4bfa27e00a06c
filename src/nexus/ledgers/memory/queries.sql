-- name: append_fact
INSERT INTO facts (
  id, source_entity_id, relation_type, target_entity_id, fact, confidence, source_type, as_of, valid_at,
  source_event_id, source_episode_id, source_request_id, metadata_json, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: counts
SELECT 'facts', count(*) FROM facts UNION ALL SELECT 'episodes', count(*) FROM episodes
UNION ALL SELECT 'observations', count(*) FROM observations
UNION ALL SELECT 'mental models', count(*) FROM mental_models

-- name: has_episode
SELECT 1 FROM episodes WHERE id = ?

-- name: has_fact
SELECT 1 FROM facts WHERE id = ?

-- name: link_fact_entity
INSERT INTO fact_entities (fact_id, entity_id, role) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: mention_relationship
INSERT INTO episode_relationship_mentions (
  episode_id, relationship_id, source_type, extracted_fact, confidence, created_at)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: mention_entity
INSERT INTO episode_entity_mentions (episode_id, entity_id, mention_count) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET mention_count = mention_count + excluded.mention_count

-- name: add_causal_link
INSERT INTO causal_links (id, cause_fact_id, effect_fact_id, relation, confidence, source_episode_id, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: add_episode
INSERT INTO episodes (
  id, definition_id, channel, thread_id, title, summary, start_time, end_time, event_count, token_count,
  version, previous_version_id, source_request_id, metadata_json, created_at)
VALUES (
  :id, :definition, :channel, :thread, :title, :summary, :start, :end, :events, :tokens,
  :version, :previous, :request, :metadata, :now)

-- name: link_episode_event
INSERT INTO episode_events (episode_id, event_id, position) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: episode_version
SELECT version FROM episodes WHERE id = ?

-- name: newer_episode
SELECT id FROM episodes WHERE previous_version_id = ?

-- name: inherit_events
INSERT INTO episode_events (episode_id, event_id, position)
SELECT :id, event_id, position FROM episode_events WHERE episode_id = :previous

-- name: inherit_mentions
INSERT INTO episode_entity_mentions (episode_id, entity_id, mention_count)
SELECT :id, entity_id, mention_count FROM episode_entity_mentions WHERE episode_id = :previous

-- name: inherited_size
SELECT event_count, token_count FROM episodes WHERE id = ?
