-- name: register_model
INSERT INTO embedding_models (id, dimensions) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: serve_first_model
UPDATE embedding_models SET serving = 1
WHERE id = ? AND NOT EXISTS (SELECT 1 FROM embedding_models WHERE serving = 1)

-- name: serve_no_model
UPDATE embedding_models SET serving = 0 WHERE serving = 1 AND id <> ?

-- name: serve_model
UPDATE embedding_models SET serving = 1 WHERE id = ?

-- name: serving_model
SELECT id FROM embedding_models WHERE serving = 1

-- name: put
INSERT OR REPLACE INTO embeddings (target_type, target_id, model_id, vector, source_text_hash)
VALUES (?, ?, ?, ?, ?)

-- name: drop
DELETE FROM embeddings WHERE target_type = ? AND target_id = ?

-- name: other_models
SELECT id FROM embedding_models WHERE id <> ?

-- name: drop_some_of_model
DELETE FROM embeddings WHERE seq IN (SELECT seq FROM embeddings WHERE model_id = ? LIMIT ?)

-- name: drop_progress
DELETE FROM embedding_progress WHERE model_id = ?

-- name: drop_model
DELETE FROM embedding_models WHERE id = ?

-- name: hash_of
SELECT source_text_hash FROM embeddings WHERE target_type = ? AND target_id = ? AND model_id = ?

-- name: newer
SELECT seq, target_id, vector FROM embeddings WHERE seq > ? AND model_id = ? ORDER BY seq LIMIT ?

-- name: vectors_by_seq
SELECT seq, vector FROM embeddings WHERE seq IN (SELECT value FROM json_each(?))

-- name: vectors_of_targets
SELECT target_id, vector FROM embeddings
WHERE target_type = ? AND model_id = ? AND target_id IN (SELECT value FROM json_each(?))

-- name: position
SELECT position FROM embedding_progress WHERE model_id = ? AND target_type = ?

-- name: set_position
INSERT INTO embedding_progress (model_id, target_type, position) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET position = excluded.position, updated_at = excluded.updated_at

-- name: vectors_of
SELECT count(*) FROM embeddings WHERE target_type = ? AND model_id = ?

-- Of each kind: what is to be embedded after a place (`:after`), what of it is still there, how much waits
-- behind a position and since when. A log's place is its seq; elsewhere it is an id.

-- name: event_sources
-- A note has no vector: its facts do.
SELECT seq, id, iif(kind = 'note', NULL, sender), iif(kind = 'note', '', content) FROM events WHERE seq > :after ORDER BY seq LIMIT :limit

-- name: event_present
SELECT id FROM events WHERE id IN (SELECT value FROM json_each(?))

-- name: event_end
SELECT max(seq) FROM events

-- name: event_waiting
SELECT count(*), min(created_at) FROM events WHERE seq > ?

-- name: event_total
SELECT count(*) FROM events

-- name: fact_sources
SELECT seq, id, fact FROM facts WHERE seq > :after ORDER BY seq LIMIT :limit

-- name: fact_present
SELECT id FROM facts WHERE id IN (SELECT value FROM json_each(?))

-- name: fact_end
SELECT max(seq) FROM facts

-- name: fact_waiting
SELECT count(*), min(created_at) FROM facts WHERE seq > ?

-- name: fact_total
SELECT count(*) FROM facts

-- name: entity_sources
-- Of what is known about a person only what it is, a birthday or a phone: the values can be forgotten alone.
SELECT id, id, canonical_name, summary,
       (SELECT group_concat(what, ', ') FROM (
          SELECT replace(fact_type, '_', ' ') AS what FROM person_facts AS k
          JOIN persons AS p ON p.id = k.person_id WHERE p.entity_id = entities.id
          UNION
          SELECT type FROM entity_aliases WHERE entity_id = entities.id AND type <> 'name' ORDER BY what))
FROM entities
WHERE id > :after AND updated_at >= :since ORDER BY id LIMIT :limit

-- name: entity_present
SELECT id FROM entities WHERE id IN (SELECT value FROM json_each(?))

-- name: entity_end
SELECT max(updated_at) FROM entities

-- name: entity_waiting
SELECT count(*), min(updated_at) FROM entities WHERE updated_at > ?

-- name: entity_total
SELECT count(*) FROM entities

-- name: episode_sources
-- A title and a summary from the episode's own words add nothing to these.
SELECT id, id, iif(metadata_json ->> 'extracted', NULL, title), iif(metadata_json ->> 'extracted', NULL, summary),
       (SELECT json_group_array(event_id) FROM
          (SELECT event_id FROM episode_events WHERE episode_id = episodes.id ORDER BY position LIMIT 24))
FROM episodes
WHERE id > :after AND created_at >= :since ORDER BY id LIMIT :limit

-- name: contents_of_events
SELECT id, sender, content FROM events WHERE id IN (SELECT value FROM json_each(?))

-- name: episode_present
SELECT id FROM episodes WHERE id IN (SELECT value FROM json_each(?))

-- name: episode_end
SELECT max(created_at) FROM episodes

-- name: episode_waiting
SELECT count(*), min(created_at) FROM episodes WHERE created_at > ?

-- name: episode_total
SELECT count(*) FROM episodes

-- name: observation_sources
SELECT id, id, content FROM observations
WHERE id > :after AND created_at >= :since ORDER BY id LIMIT :limit

-- name: observation_present
SELECT id FROM observations WHERE id IN (SELECT value FROM json_each(?))

-- name: observation_end
SELECT max(created_at) FROM observations

-- name: observation_waiting
SELECT count(*), min(created_at) FROM observations WHERE created_at > ?

-- name: observation_total
SELECT count(*) FROM observations

-- name: mental_model_sources
SELECT id, id, content FROM mental_models
WHERE id > :after AND created_at >= :since ORDER BY id LIMIT :limit

-- name: mental_model_present
SELECT id FROM mental_models WHERE id IN (SELECT value FROM json_each(?))

-- name: mental_model_end
SELECT max(created_at) FROM mental_models

-- name: mental_model_waiting
SELECT count(*), min(created_at) FROM mental_models WHERE created_at > ?

-- name: mental_model_total
SELECT count(*) FROM mental_models
