-- name: counts
SELECT 'vectors', count(*) FROM embeddings

-- name: vectors_of_entities
SELECT target_id, vector FROM embeddings
WHERE target_type = 'entity' AND model_id = ? AND target_id IN (SELECT value FROM json_each(?))
