-- name: counts
SELECT 'vectors', count(*) FROM embeddings

-- name: vectors_of_entities
SELECT target_id, vector FROM embeddings
WHERE target_type = 'entity' AND model_id = ? AND source_text_hash <> ''
  AND target_id IN (SELECT value FROM json_each(?))

-- name: failed
-- Texts that a model could not embed. They are tried again at each start, and by `nexus memory embeddings --check`.
SELECT count(*) FROM embeddings WHERE source_text_hash = ''
